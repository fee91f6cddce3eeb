"""With how many replicas a run began, and how many examples it has trained."""

import errno
import json
import os

import pytest

from estimator_trainer.config.trainer_config import parse
from estimator_trainer.run_dir import config_file, file_names, protocol
from estimator_trainer.training import plan as planning


@pytest.fixture
def began(tmp_path):
    """began(old, workers, *argv, **environ): the replicas with which the run of a plan with so many workers began,
    in a model_dir with the config.json `old`."""

    def replicas(old, workers, *argv, **environ):
        if old is not None:
            config_file.write(str(tmp_path), old)
        config = parse(['trainer', f'--model_dir={tmp_path}', '--max_steps=5', *argv])
        cluster = {'worker': [f'host{i}:1' for i in range(workers)]}
        task = {'type': 'worker', 'index': 0}
        environ['TF_CONFIG'] = json.dumps({'cluster': cluster, 'task': task})
        return config_file.initial_replicas(planning.make(config, environ), environ)

    return replicas


@pytest.mark.parametrize(
    'old, argv, replicas',
    [
        (None, [], 2),
        (dict(global_batch_size=16, num_replicas=2, initial_replicas=4), ['--batch_size=8'], 4),
        (None, ['--accumulate_steps=3'], 6),
        (dict(global_batch_size=64, num_replicas=8, initial_replicas=8), ['--batch_size=8', '--accumulate_steps=4'], 8),
        (dict(global_batch_size=16, num_replicas=4, initial_replicas='4'), ['--batch_size=8'], 2),
        (dict(global_batch_size=16, initial_replicas=True), ['--batch_size=8'], 2),
        (dict(global_batch_size=32, num_replicas=4, initial_replicas=4), ['--batch_size=8'], 2),  # begins anew
    ],
)
def test_with_how_many_replicas_a_run_began(began, old, argv, replicas):
    assert began(old, 2, *argv) == replicas


def test_the_supervisor_knows_it_before_config_json_does(began):
    assert began(None, 2, ESTIMATOR_TRAINER_WORKERS='3') == 3
    assert began(None, 2, ESTIMATOR_TRAINER_WORKERS='2') == 2
    assert began(None, 2, ESTIMATOR_TRAINER_WORKERS='some') == 2
    old = dict(global_batch_size=16, num_replicas=1, initial_replicas=1)
    assert began(old, 2, '--batch_size=8', ESTIMATOR_TRAINER_WORKERS='3') == 1


def test_how_many_examples_a_run_has_trained_when_its_global_batch_has_changed(tmp_path):
    def start(global_batch, step):
        """What the chief does; the other tasks ask before or after it writes."""
        before = config_file.position_shift(folder, global_batch, step)
        parts = config_file.batches(folder, global_batch, step)
        config_file.write(
            folder,
            {'global_batch_size': global_batch, 'batches': parts} if parts[1:] else {'global_batch_size': global_batch},
        )
        assert config_file.position_shift(folder, global_batch, step) == before
        return step * global_batch + before

    folder = str(tmp_path)
    assert start(64, 0) == 0
    assert start(64, 100) == 6400
    assert 'batches' not in json.loads((tmp_path / 'config.json').read_text())
    assert start(32, 250) == 250 * 64
    assert start(32, 250) == 250 * 64  # it was killed before its first checkpoint
    assert start(16, 250) == 250 * 64
    assert start(32, 350) == 250 * 64 + 100 * 16
    assert config_file.batches(folder, 32, 350) == [[0, 0, 64], [250, 16000, 16], [350, 17600, 32]]
    assert start(32, 400) == 17600 + 50 * 32
    assert start(32, 300) == 16000 + 50 * 16  # the newest checkpoint was damaged
    assert start(64, 0) == 0


def test_examples_of_a_checkpoint_whose_step_does_not_say_them(tmp_path):
    folder = str(tmp_path)
    config_file.write(folder, {'global_batch_size': 8})
    for step in (0, 20):
        (tmp_path / f'model.ckpt-{step}.index').write_text('')
    config_file.keep_examples(folder, 8, 0, 0)
    config_file.keep_examples(folder, 8, 20, 160)
    assert not (tmp_path / file_names.EXAMPLES).exists()  # the steps say it
    config_file.keep_examples(folder, 8, 20, 640)
    config_file.keep_examples(folder, 8, 21, 672)  # comes before the checkpoint
    assert config_file.position_shift(folder, 8, 20) == 480 and config_file.position_shift(folder, 8, 0) == 0
    assert config_file.position_shift(folder, 8, 21) == 504

    # The run resumes: config.json says it too, for the tasks that have no other file of the chief's.
    parts = config_file.batches(folder, 8, 20)
    assert parts == [[0, 0, 8], [20, 640, 8]]
    config_file.write(folder, {'global_batch_size': 8, 'batches': parts})
    (tmp_path / file_names.EXAMPLES).unlink()
    assert config_file.position_shift(folder, 8, 20) == config_file.position_shift(folder, 8, 30) == 480
    assert config_file.position_shift(folder, 16, 20) == 320  # another global batch
    config_file.keep_examples(folder, 8, 30, 720)  # from here on each step trains a batch
    assert not (tmp_path / file_names.EXAMPLES).exists()
    config_file.keep_examples(folder, 8, 24, 768)
    assert config_file.position_shift(folder, 8, 24) == 576


def test_epochs_do_not_count_what_only_hooks_have_read(tmp_path):
    folder = str(tmp_path)
    config_file.write(folder, {'global_batch_size': 8})
    for step in (10, 20):
        (tmp_path / f'model.ckpt-{step}.index').write_text('')
        config_file.keep_examples(folder, 8, step, 3 * 8 * step, beside=2 * 8 * step)
    assert [config_file.position_shift(folder, 8, step) for step in (0, 10, 20)] == [0, 160, 320]
    assert [config_file.trained_shift(folder, 8, step) for step in (0, 10, 20)] == [0, 0, 0]

    # The run resumes, and no hook reads any more.
    config_file.write(folder, {'global_batch_size': 8, **config_file.history(folder, 8, 20)})
    (tmp_path / file_names.EXAMPLES).unlink()  # of the tasks that have no other file of the chief's
    assert [config_file.trained_shift(folder, 8, step) for step in (0, 20, 30)] == [0, 0, 0]
    config_file.keep_examples(folder, 8, 30, 30 * 8 + 320, beside=320)
    assert (config_file.position_shift(folder, 8, 30), config_file.trained_shift(folder, 8, 30)) == (320, 0)


def test_examples_of_checkpoints_that_are_gone_here_are_kept_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr(config_file, '_KEPT_EXAMPLES', 9)
    folder = str(tmp_path)
    config_file.write(folder, {'global_batch_size': 8})
    (tmp_path / 'model.ckpt-3.index').write_text('')
    for step in [*range(1, 50), 40, 41]:  # it goes back to 39
        config_file.keep_examples(folder, 8, step, 32 * step + 1)
    kept = json.loads((tmp_path / file_names.EXAMPLES).read_text())
    assert sorted(map(int, kept)) == [3, *range(40, 50)]
    assert config_file.position_shift(folder, 8, 42) == 24 * 42 + 1  # the store may name it still


def test_what_hooks_have_read_before_a_checkpoint_is_forgotten_when_it_is_trained_again(tmp_path):
    folder = str(tmp_path)
    config_file.write(folder, {'global_batch_size': 8})
    config_file.keep_examples(folder, 8, 10, 240, beside=160)
    config_file.keep_examples(folder, 8, 20, 480, beside=320)
    config_file.keep_examples(folder, 8, 20, 160)
    assert (config_file.position_shift(folder, 8, 20), config_file.trained_shift(folder, 8, 20)) == (0, 0)
    assert (config_file.position_shift(folder, 8, 10), config_file.trained_shift(folder, 8, 10)) == (160, 0)


@pytest.mark.parametrize('name', [file_names.EXAMPLES, file_names.CONFIG])
def test_a_file_that_cannot_be_read_now_is_no_other_place_of_the_data(tmp_path, monkeypatch, name):
    folder = str(tmp_path)
    config_file.write(folder, {'global_batch_size': 8, 'batches': [[0, 0, 16], [5, 80, 8]]})
    config_file.keep_examples(folder, 8, 20, 640)
    read, before = protocol.read_object, (tmp_path / file_names.EXAMPLES).read_text()

    def fails(path):
        if path == str(tmp_path / name):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)
        return read(path)

    monkeypatch.setattr(protocol, 'read_object', fails)
    for function in (config_file.history, config_file.batches, config_file.position_shift, config_file.trained_shift):
        with pytest.raises(OSError, match=rf'{os.strerror(errno.ESTALE)}.*{name}'):
            function(folder, 8, 20)
    with pytest.raises(OSError, match=name):
        config_file.keep_examples(folder, 8, 30, 960)
    assert (tmp_path / file_names.EXAMPLES).read_text() == before
