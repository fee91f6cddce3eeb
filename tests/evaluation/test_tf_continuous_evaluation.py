"""evaluation.continuous_evaluation: real checkpoints, and a watch that tells what the test has written."""

import os
import threading
import time

import pytest
import tensorflow as tf

from estimator_trainer.evaluation import continuous_evaluation
from estimator_trainer.evaluation.continuous_evaluation import TrainingLost, TrainingStopped
from estimator_trainer.lifecycle import training_watch
from estimator_trainer.run_dir import checkpoints, training_file
from tests.evaluation.followed_run import FakeEvaluator, Run, cut_short, delete, real_estimator, save

TRAINING, ENDED, STOPPED = training_file.TRAINING, training_file.ENDED, training_file.STOPPED
STARTING, LOST, ABSENT = training_file.STARTING, training_watch.LOST, training_watch.ABSENT


def kept_graph(model_dir, input_fn):
    return real_estimator(model_dir, input_fn, same_data=True)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(continuous_evaluation, 'POLL_SECS', 0)


def at(step):
    return save, step


@pytest.mark.parametrize(
    'looks, evaluated, exported',
    [
        # to max_steps
        (
            [(STARTING,), (TRAINING, at(0)), (TRAINING, at(50)), (TRAINING,), (TRAINING, at(100)), (ENDED,)],
            [0, 50, 100],
            [(0, False), (50, False), (100, False), (100, True)],
        ),
        # early; the last checkpoint was evaluated before this was known
        ([(TRAINING, at(50)), (TRAINING,), (ENDED,)], [50], [(50, False), (50, True)]),
        ([(TRAINING, at(50)), (TRAINING, at(60)), (ENDED,)], [50, 60], [(50, False), (60, False), (60, True)]),
        # early; it is evaluated after that
        ([(TRAINING, at(50)), (ENDED, at(60)), (ENDED,)], [50, 60], [(50, False), (60, True)]),
        # the end comes with the last checkpoint, late
        ([(STARTING,), (ENDED, at(100)), (ENDED,)], [100], [(100, True)]),
        # a step that moves the global step by 2 goes on past it
        (
            [(TRAINING, at(100)), (TRAINING, at(102)), (TRAINING,), (ENDED,)],
            [100, 102],
            [(100, False), (102, False), (102, True)],
        ),
        # only the newest one
        ([(TRAINING, at(10), at(20), at(30)), (ENDED,)], [30], [(30, False), (30, True)]),
        ([(ENDED,)], [], []),
    ],
    ids=['max_steps', 'early', 'early, two', 'early, late', 'only the end', 'past it', 'newest', 'nothing'],
)
def test_what_is_evaluated_and_exported(tmp_path, looks, evaluated, exported):
    run = Run(tmp_path, *looks).run()
    assert run.evaluated == evaluated
    assert run.exports.told == [(step, step, final) for step, final in exported]
    assert sum(final for *_, final in run.exports.told) == bool(exported)
    assert run.round == len(looks)


@pytest.mark.parametrize(
    'state, error, ever_seen',
    [(STOPPED, TrainingStopped, None), (LOST, TrainingLost, True), (ABSENT, TrainingLost, False)],
)
@pytest.mark.parametrize(
    'before, heard', [([], []), ([(TRAINING, at(50))], [50]), ([(TRAINING, at(50)), ('last', at(60))], [50, 60])]
)
def test_there_is_nothing_more_to_wait_for(tmp_path, state, error, ever_seen, before, heard):
    looks = [(state if told == 'last' else told, *done) for told, *done in before]
    run = Run(tmp_path, *looks, (state,))
    with pytest.raises(error) as caught:
        run.run()
    assert run.evaluated == heard
    assert not any(final for *_, final in run.exports.told)
    if ever_seen is not None:
        assert caught.value.ever_seen == ever_seen and '31 s' in str(caught.value)


@pytest.mark.parametrize('by', ['this version', 'an earlier one'])
@pytest.mark.parametrize(
    'before, looks, evaluated, exported',
    [
        ((100, True), [(ENDED,), (ENDED,)], [], []),
        ((100, True), [(STARTING,), (ENDED,)], [], []),
        ((50, True), [(ENDED,), (ENDED,)], [], []),  # had stopped early
        ((50, False), [(ENDED,), (ENDED,)], [], [(50, True)]),
        ((50, True), [(TRAINING,), (TRAINING, at(100)), (ENDED,)], [100], [(100, False), (100, True)]),
        ((50, True), [(ENDED, at(60)), (ENDED,)], [60], [(60, True)]),
    ],
)
def test_a_run_that_is_started_again(tmp_path, before, looks, evaluated, exported, by):
    step, ended = before
    save(tmp_path, step)
    first = Run(tmp_path, (ENDED if ended else STOPPED,), *([(ENDED,)] if ended else [(STOPPED,)]))
    if ended:
        first.run()
    else:
        with pytest.raises(TrainingStopped):
            first.run()
    if by == 'an earlier one':  # it is not known there whether the export was the final one
        os.unlink(tmp_path / 'eval/last.json')
        exported = exported if looks[1:] != [(ENDED,)] or exported else [(step, True)]
    run = Run(tmp_path, *looks).run()
    assert run.evaluated == [step, *evaluated]
    assert run.exports.told == [(at, at, final) for at, final in exported]


@pytest.mark.parametrize('moment', ['evaluate', 'write'])
def test_what_an_evaluator_has_left_undone_comes_first(tmp_path, moment):
    class Killed(BaseException):
        pass

    def die(*args, **kwargs):
        raise Killed

    run = Run(tmp_path, (TRAINING, at(50)))
    if moment == 'write':
        run.exports.write = die
    else:
        run.evaluation._evaluation._evaluate = die
    with pytest.raises(Killed):
        run.run()
    again = Run(tmp_path, (TRAINING, at(60)), (ENDED,)).run()
    assert again.evaluated == [50, 60]
    assert again.exports.told == [(50, 50, False), (60, 60, False), (60, 60, True)]


class TestAFileSystemThatLags:
    """`checkpoint` names what cannot be seen yet, or is an older one itself."""

    @pytest.fixture
    def hidden(self, tmp_path, monkeypatch):
        """(function that hides the checkpoint of step 100, the looks after which it is seen again)"""
        looks, here, sleep_elsewhere = [], threading.get_ident(), time.sleep

        def sleep(secs):
            if threading.get_ident() != here:  # a thread that an earlier test left
                return sleep_elsewhere(secs)
            looks.append(secs)
            if len(looks) == 3:
                for name in os.listdir(tmp_path / 'elsewhere'):
                    os.replace(tmp_path / 'elsewhere' / name, tmp_path / name)

        def hide(names):
            (tmp_path / 'elsewhere').mkdir()
            for name in names:
                os.replace(tmp_path / name, tmp_path / 'elsewhere' / name)

        monkeypatch.setattr(checkpoints.time, 'sleep', sleep)
        return hide, looks

    def test_the_index_comes_later(self, tmp_path, hidden):
        hide, looks = hidden
        save(tmp_path, 50)
        save(tmp_path, 100)
        hide(['model.ckpt-100.index'])
        run = Run(tmp_path, (ENDED,), (ENDED,)).run()
        assert run.evaluated == [100] and len(looks) == 3

    def test_checkpoint_itself_comes_later(self, tmp_path, hidden):
        hide, looks = hidden
        save(tmp_path, 100)
        hide(['checkpoint'])
        save(tmp_path, 50)
        run = Run(tmp_path, (ENDED,), (ENDED,))
        run.checkpoint_step = 100
        run.run()
        assert run.evaluated == [100] and len(looks) == 3

    def test_it_never_comes(self, tmp_path, monkeypatch, warnings):
        save(tmp_path, 50)
        monkeypatch.setattr(checkpoints, 'VISIBLE_SECS', 0)
        run = Run(tmp_path, (ENDED,), (ENDED,))
        run.checkpoint_step = 100
        run.run()
        (warning,) = warnings()
        assert run.evaluated == [50] and 'of step 100' in warning and 'goes on with model.ckpt-50' in warning


@pytest.fixture
def warnings(caplog):
    return lambda: [record.getMessage() for record in caplog.records if record.name == 'estimator_trainer']


def delete_data(model_dir, step):
    os.unlink(os.path.join(model_dir, f'model.ckpt-{step}.data-00000-of-00001'))


@pytest.mark.parametrize('make', [FakeEvaluator, real_estimator, kept_graph])
@pytest.mark.parametrize('damage', [delete_data, cut_short])
def test_a_checkpoint_that_is_gone_or_damaged_is_skipped(tmp_path, make, damage, warnings):
    run = Run(tmp_path, (TRAINING, at(50), (damage, 50)), (TRAINING,), (TRAINING, at(60)), (ENDED,), make=make).run()
    assert run.evaluated == [60]
    (warning,) = warnings()
    assert 'model.ckpt-50' in warning and '\n' not in warning


def test_a_checkpoint_that_is_deleted_while_it_is_evaluated(tmp_path, warnings):
    class Slow(FakeEvaluator):
        def evaluate(self, checkpoint):
            if checkpoint.endswith('-50'):
                delete(self.model_dir, 50)
            return super().evaluate(checkpoint)

    run = Run(tmp_path, (TRAINING, at(50)), (TRAINING, at(60)), (ENDED,), make=Slow).run()
    assert run.evaluated == [60] and len(warnings()) == 1


def test_the_last_one_is_damaged_so_the_one_before_is_exported(tmp_path):
    run = Run(tmp_path, (TRAINING, at(50)), (ENDED, at(60), (cut_short, 60)), (ENDED,)).run()
    assert run.evaluated == [50]
    assert run.exports.told == [(50, 50, False), (50, 50, True)]


@pytest.mark.parametrize('error', [ValueError('a bug'), tf.errors.NotFoundError(None, None, 'data/x')])
def test_an_error_of_the_jobs_is_not_laid_to_the_checkpoint(tmp_path, error):
    def input_fn():
        raise error

    with pytest.raises(type(error)) as caught:
        Run(tmp_path, (TRAINING, at(50)), input_fn=input_fn).run()
    assert caught.value is error


def test_a_real_estimator(tmp_path):
    run = Run(tmp_path, (TRAINING, at(50)), (ENDED,), make=real_estimator).run()
    assert run.evaluated == [50] and run.exports.told[-1] == (50, 50, True)
    assert (tmp_path / 'eval').is_dir()
