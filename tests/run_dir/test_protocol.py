"""protocol: files that are whole or not there. And exit_codes: what each one says to an engine."""

import json
import os
import re
import signal

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import files, protocol


def test_what_is_written_is_read(tmp_path):
    path = str(tmp_path / 'file.json')
    for value in ({'b': [1, 'ä', None], 'a': {}}, {'shorter': 1}):
        protocol.write_json(path, value)
        assert protocol.read_json(path) == value
        assert os.listdir(tmp_path) == ['file.json']
    assert (tmp_path / 'file.json').read_text() == '{\n  "shorter": 1\n}\n'


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = str(tmp_path / 'file.json')
    protocol.write_json(path, {'old': 1})
    with pytest.raises(TypeError):
        protocol.write_json(path, {'new': object()})
    assert protocol.read_json(path) == {'old': 1}
    assert os.listdir(tmp_path) == ['file.json']


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / 'folder').mkdir()
    for path in ('no_such/file.json', 'folder'):
        with pytest.raises(OSError):
            protocol.write_json(str(tmp_path / path), {})
    assert os.listdir(tmp_path) == ['folder'] and os.listdir(tmp_path / 'folder') == []


def test_a_full_disk(tmp_path, monkeypatch):
    create = files.create

    def full(path):
        create(path).close()
        return open('/dev/full', 'w')

    monkeypatch.setattr(files, 'create', full)
    with pytest.raises(OSError, match='No space left'):
        protocol.write_json(str(tmp_path / 'file.json'), {})
    assert os.listdir(tmp_path) == []


def test_readers_never_see_a_part(tmp_path, monkeypatch):
    path = str(tmp_path / 'file.json')
    protocol.write_json(path, {'old': 1})
    replace, seen = os.replace, []
    monkeypatch.setattr(
        os,
        'replace',
        lambda new, old: (seen.append((json.loads(open(new).read()), protocol.read_json(old))), replace(new, old)),
    )
    protocol.write_json(path, {'new': 2})
    assert seen == [({'new': 2}, {'old': 1})]


@pytest.mark.parametrize(
    'content',
    [
        None,
        b'',
        b'{"a": 1',
        b'[1]',
        b'null',
        b'3',
        b'"text"',
        b'\xff\xfe',
        b'{"a": 1} x',
        '{"a": "ä"}'.encode('latin-1'),
    ],
)
def test_what_is_no_object_is_an_empty_one(tmp_path, content):
    path = tmp_path / 'file.json'
    if content is not None:
        path.write_bytes(content)
    assert protocol.read_json(str(path)) == {}


def test_a_folder_is_no_object(tmp_path):
    assert protocol.read_json(str(tmp_path)) == {}


CODES = {name: value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}


def test_every_exit_code_is_one_of_a_kind_and_means_something():
    assert len(set(CODES.values())) == len(CODES)
    assert set(exit_codes.MEANINGS) == set(CODES.values())
    assert all(0 <= code < 256 for code in CODES.values())


@pytest.mark.parametrize(
    'name, again',
    [
        ('OK', False),
        ('FAILED', False),
        ('USAGE', False),
        ('DAMAGED', False),
        ('NO_DATA', False),
        ('NOT_FINITE', False),
        ('OUT_OF_MEMORY', False),
        ('CANNOT_WRITE', False),
        ('INTERRUPTED', True),
        ('TERMINATED', True),
        ('LOST_PEER', True),
        ('NO_PEER', True),
        ('STALLED', True),
        ('NOT_SAVED', True),
        ('RESTARTS_SPENT', True),
        ('PORT_TAKEN', True),
    ],
)
def test_what_is_worth_another_try(name, again):
    assert exit_codes.retryable(CODES[name]) == again


def test_none_of_ours_is_taken_by_a_signal():
    signals = {128 + number for number in range(1, signal.NSIG)}
    assert signals & set(CODES.values()) == {128 + signal.SIGINT, 128 + signal.SIGTERM}


@pytest.mark.parametrize(
    'code, text',
    [
        (0, 'done'),
        (137, 'killed by signal 9'),
        (192, 'killed by signal 64'),
        (128, 'unknown exit code'),
        (250, 'unknown exit code'),
        (-1, 'unknown exit code'),
        (143, 'preempted'),
    ],
)
def test_descriptions(code, text):
    assert exit_codes.describe(code).startswith(text)


def test_variables_are_named_by_one_pattern():
    assert all(re.fullmatch('ESTIMATOR_TRAINER_[A-Z_]+', name) for name in protocol.VARIABLES)
    assert len(set(protocol.VARIABLES)) == len(protocol.VARIABLES)


def test_a_path_is_shown_below_the_url_of_its_run():
    environ = {protocol.STORE: '{"folder": "/here/run", "flags": {"model_dir": "s3://bucket/run"}}'}
    assert protocol.path_for_user('/here/run', environ) == 's3://bucket/run'
    assert protocol.path_for_user('/here/run/export/best', environ) == 's3://bucket/run/export/best'
    assert protocol.path_for_user('/here/runs', environ) == '/here/runs'
    for other in ({}, {protocol.STORE: 'x'}):
        assert protocol.path_for_user('/here/run', other) == '/here/run'
    assert protocol.path_for_user(None, environ) is None
