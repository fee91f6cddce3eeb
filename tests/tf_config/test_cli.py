import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tf_config import parse
from tf_config.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
PAIR = '{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}}'


@pytest.fixture(autouse=True)
def no_socket(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError('a socket was opened')

    monkeypatch.setattr(socket, 'socket', refuse)


@pytest.fixture
def run(monkeypatch, capsys):
    """run(*argv, config=None) -> (exit code, stdout, stderr), in this process."""

    def run(*argv, config=None):
        if config is None:
            monkeypatch.delenv('TF_CONFIG', raising=False)
        else:
            monkeypatch.setenv('TF_CONFIG', config)
        try:
            code = main(argv)
        except SystemExit as stop:
            code = stop.code
        return code, *capsys.readouterr()

    return run


def module(*argv, config=None, code=None):
    environ = {key: value for key, value in os.environ.items() if key != 'TF_CONFIG'}
    if config is not None:
        environ['TF_CONFIG'] = config
    command = [sys.executable, *(('-c', code) if code else ('-m', 'tf_config')), *argv]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    'argv, config, code',
    [
        (['check'], PAIR, 0),
        (['check'], None, 0),
        (['check'], '{"cluster":', 64),
        (['check', '--strategy=mirrored'], PAIR, 64),
        (['show'], '[]', 64),
        (['make', '--workers=0'], None, 64),
        (['--help'], None, 0),
        (['nonsense'], None, 64),
        ([], None, 64),
    ],
)
def test_exit_codes_of_the_process(argv, config, code):
    done = module(*argv, config=config)
    assert done.returncode == code, done.stderr
    assert bool(done.stdout) == (code == 0)
    assert bool(done.stderr) == (code != 0)
    assert 'Traceback' not in done.stderr


@pytest.mark.parametrize('argv', [['check'], ['show'], ['export'], ['make', '--ps=1', '--evaluator']])
def test_tensorflow_is_not_imported(argv):
    done = module(
        *argv,
        config=PAIR,
        code="""
import runpy, sys
sys.argv[0] = 'tf_config'
try:
    runpy.run_module('tf_config', run_name='__main__')
except SystemExit as stop:
    assert not stop.code
assert not {'tensorflow', 'absl', 'numpy'} & set(sys.modules)
""",
    )
    assert done.returncode == 0, done.stderr


def test_check_says_one_line(run):
    assert run('check', config=PAIR) == (0, 'ok: worker:1 of 2 worker; strategy multi_worker_mirrored\n', '')


def test_check_without_tf_config_says_so(run):
    assert run('check') == (0, 'ok: TF_CONFIG is not set: a single process\n', '')
    assert run('check', config='{}') == (0, 'ok: TF_CONFIG names no cluster: a single process\n', '')


def test_check_shows_every_finding_and_a_corrected_form(run):
    code, out, err = run('check', config=PAIR.replace('b:1', 'b').replace('a:1', 'a'))
    assert (code, out) == (64, '')
    assert 'cluster.worker[0] = "a"' in err
    assert 'cluster.worker[1] = "b"' in err
    parse(err.rpartition('corrected: ')[2])


@pytest.mark.parametrize(
    'argv, parts',
    [
        ((), ['give a command', 'check: say', 'show: print', 'make: print']),
        (('make', '--worker=2'), ['make: --worker=2: no such argument (did you mean --workers?)']),
        (('check', '--stratgy=none'), ['did you mean --strategy?']),
        (('chek',), ['chek', 'check']),
    ],
)
def test_what_is_not_known_is_refused_with_the_nearest(run, argv, parts):
    code, out, err = run(*argv)
    assert (code, out, err.count('\n')) == (64, '', 1)
    assert all(part in err for part in parts), err


def test_check_tells_notes_apart(run):
    code, out, err = run(
        'check',
        config=PAIR.replace('worker', 'master').replace('"a:1","b:1"', '"a:1"').replace('"index":1', '"index":0'),
    )
    assert code == 0
    assert out.startswith('ok: chief:0 of 1 chief')
    assert err.startswith('note: "master"') and err.count('\n') == 1


def test_a_file_takes_the_place_of_the_environment(run, tmp_path):
    file = tmp_path / 'config.json'
    file.write_text(PAIR)
    assert run('check', f'--file={file}', config='[]')[:2] == (
        0,
        'ok: worker:1 of 2 worker; strategy multi_worker_mirrored\n',
    )
    file.write_bytes(b'\xff\xfe')
    for path in (file, tmp_path / 'missing', tmp_path):
        code, out, err = run('check', f'--file={path}')
        assert (code, out, err.count('\n')) == (64, '', 1)


def test_show_marks_the_chief_and_this_task(run):
    code, out, _ = run('show', config=PAIR)
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ['role', 'index', 'address'],
        ['worker', '0', 'a:1', 'chief'],
        ['worker', '1', 'b:1', 'this', 'task'],
    ]


def test_show_lists_an_evaluator_outside_the_cluster(run):
    _, out, _ = run('show', config=PAIR.replace('"type":"worker","index":1', '"type":"evaluator","index":0'))
    assert out.splitlines()[-1].split() == ['evaluator', '0', '(not', 'in', 'the', 'cluster)', 'this', 'task']


def test_show_without_a_cluster(run):
    assert run('show')[:2] == (0, 'TF_CONFIG is not set: a single process\n')


def test_export_gives_a_program_the_task_of_this_process(run):
    code, out, _ = run('export', config=PAIR)
    word, value = shlex.split(out)
    assert (code, word, value) == (0, 'export', f'TF_CONFIG={PAIR}')
    assert run('export')[:2] == (0, '# TF_CONFIG is not set: a single process\n')
    code, out, _ = run('export', '--hosts=a,b', '--rank=1', '--base_port=3000')
    assert (code, json.loads(shlex.split(out)[1].removeprefix('TF_CONFIG='))) == (
        0,
        {'cluster': {'worker': ['a:3000', 'b:3000']}, 'task': {'type': 'worker', 'index': 1}},
    )


@pytest.mark.parametrize('role, named', [('chief', False), ('ps', False), ('evaluator', True)])
def test_beside_parameter_servers_only_the_evaluator_names_itself(run, role, named):
    config = {'cluster': {'chief': ['a:1'], 'ps': ['a:2'], 'evaluator': ['a:3']}, 'task': {'type': role, 'index': 0}}
    code, out, _ = run('export', config=json.dumps(config))
    assert code == 0 and ('evaluator' in json.loads(shlex.split(out)[1].removeprefix('TF_CONFIG='))['cluster']) == named


def test_make_exports_can_be_sourced(run):
    code, out, _ = run('make', '--workers=2', '--ps=1', '--evaluator', '--host=a', '--host=b')
    assert code == 0
    lines = out.splitlines()
    assert lines[::2] == ['# chief:0 on a', '# worker:0 on b', '# ps:0 on a', '# evaluator:0 on b']
    word, value = shlex.split(lines[3])
    assert word == 'export'
    assert json.loads(value.removeprefix('TF_CONFIG=')) == {
        'cluster': {'chief': ['a:2222'], 'worker': ['b:2222'], 'ps': ['a:2223'], 'evaluator': ['b:2223']},
        'task': {'type': 'worker', 'index': 0},
    }


@pytest.mark.parametrize('workers', [1, 2, 4])
@pytest.mark.parametrize('ps', [0, 2])
@pytest.mark.parametrize(
    'more',
    [
        [],
        ['--evaluator'],
        ['--host=a', '--host=a'],
        ['--host=localhost', '--host=127.0.0.1'],
        ['--host=Node', '--host=node', '--host=[::1]'],
        ['--base_port=65530'],
    ],
)
def test_check_accepts_what_make_makes(run, workers, ps, more):
    shape = ['make', f'--workers={workers}', f'--ps={ps}', *more]
    code, out, err = run(*shape, '--format=json')
    assert (code, err) == (0, '')
    configs = json.loads(out)
    assert len(configs) == workers + ps + ('--evaluator' in more)
    for task, config in configs.items():
        code, out, err = run('check', config=json.dumps(config))
        assert (code, err) == (0, '')
        assert out.startswith(f'ok: {task} of ')
    exported = [shlex.split(line)[1].removeprefix('TF_CONFIG=') for line in run(*shape)[1].splitlines()[1::2]]
    assert [json.loads(text) for text in exported] == list(configs.values())


@pytest.mark.parametrize(
    'argv',
    [
        ['--workers=0'],
        ['--workers=-1'],
        ['--workers=two'],
        ['--ps=-1'],
        ['--base_port=0'],
        ['--base_port=-5'],
        ['--base_port=65536'],
        ['--base_port=65535', '--workers=2'],
        ['--host='],
        ['--host=a b'],
        ['--host=a:1'],
        ['--host=::1'],
        ['--host=http://a'],
        ['--format=yaml'],
        ['--worker=2'],
        ['stray'],
        ['--host=$(reboot)'],
    ],
)
def test_make_refuses_bad_values_in_one_line(run, argv):
    code, out, err = run('make', *argv)
    assert (code, out, err.count('\n')) == (64, '', 1)
