"""loops.continuous_evaluation: real checkpoints, and a watch that tells what the test has written."""

import logging
import os
import types

import pytest
import tensorflow as tf

from estimator_trainer import protocol
from estimator_trainer.loops import continuous_evaluation
from estimator_trainer.loops.continuous_evaluation import ContinuousEvaluation, TrainingLost, TrainingStopped
from estimator_trainer.watch import training

v1 = tf.compat.v1
TRAINING, ENDED, STOPPED = protocol.TRAINING, protocol.ENDED, protocol.STOPPED
STARTING, LOST, ABSENT = protocol.STARTING, training.LOST, training.ABSENT
MAX_STEPS = 100


def save(model_dir, step):
    with tf.Graph().as_default(), v1.Session() as session:
        global_step = v1.train.get_or_create_global_step()
        v1.get_variable('weight', [100], initializer=v1.ones_initializer())
        session.run(v1.global_variables_initializer())
        session.run(global_step.assign(step))
        v1.train.Saver().save(session, os.path.join(model_dir, 'model.ckpt'), step)


def delete(model_dir, step):
    for name in os.listdir(model_dir):
        if name.startswith(f'model.ckpt-{step}.'):
            os.unlink(os.path.join(model_dir, name))


def cut_short(model_dir, step):
    with open(os.path.join(model_dir, f'model.ckpt-{step}.data-00000-of-00001'), 'r+b') as file:
        file.truncate(40)


class FakeEstimator:
    """Reads the checkpoint, as an Estimator does."""

    def __init__(self, model_dir):
        self.model_dir = model_dir

    def evaluate(self, input_fn, steps, hooks, checkpoint_path):
        input_fn()
        tf.train.load_variable(checkpoint_path, 'weight')
        return {'loss': 1., 'global_step': int(tf.train.load_variable(checkpoint_path, 'global_step'))}


def model_fn(features, labels, mode):
    del labels
    v1.get_variable('weight', [100])
    return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean(features))


def input_fn():
    return tf.data.Dataset.from_tensors(([1.], [1.]))


def real_estimator(model_dir):
    return tf.estimator.Estimator(model_fn, model_dir)


class Exporter(tf.estimator.Exporter):
    """Notes (step, step of the checkpoint, final)."""

    def __init__(self, name):
        self._name, self.told = name, []

    @property
    def name(self):
        return self._name

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        assert export_path == os.path.join(estimator.model_dir, 'export', self._name)
        saved_at = int(checkpoint_path.split('-')[-1])
        self.told.append((eval_result['global_step'], saved_at, is_the_final_export))


class Run:
    """looks: what happens each time the evaluator looks: (state, what is done before to the model_dir)."""

    def __init__(self, model_dir, *looks, skip=None, make=FakeEstimator, input_fn=input_fn):
        self.model_dir, self.looks, self.round = str(model_dir), list(looks), 0
        self.listener, self.exporter = Exporter('listener'), Exporter('final')
        spec = types.SimpleNamespace(input_fn=input_fn, steps=None, hooks=(),
                                     exporters=(self.listener, self.exporter))
        self.evaluation = ContinuousEvaluation(
            lambda: make(self.model_dir), spec, self, MAX_STEPS, skip, self.count)

    def count(self):
        self.round += 1

    def look(self):
        state, *done = self.looks.pop(0)
        for function, step in done:
            function(self.model_dir, step)
        return training.News(state, 31.)

    def run(self):
        self.evaluation.run()
        assert not self.looks
        return self


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(continuous_evaluation, '_POLL_SECS', 0)


def at(step):
    return save, step


@pytest.mark.parametrize('looks, heard, exported', [
    # to max_steps
    ([(STARTING,), (TRAINING, at(0)), (TRAINING, at(50)), (TRAINING,), (TRAINING, at(100)), (ENDED,)],
     [(0, False), (50, False), (100, True)], [(0, False), (50, False), (100, True)]),
    # early; the last checkpoint was evaluated before this was known
    ([(TRAINING, at(50)), (TRAINING,), (ENDED,)], [(50, False)], [(50, False), (50, True)]),
    ([(TRAINING, at(50)), (TRAINING, at(60)), (ENDED,)],
     [(50, False), (60, False)], [(50, False), (60, False), (60, True)]),
    # early; it is evaluated after that
    ([(TRAINING, at(50)), (ENDED, at(60)), (ENDED,)],
     [(50, False), (60, True)], [(50, False), (60, True)]),
    # the end comes with the last checkpoint, late
    ([(STARTING,), (ENDED, at(100)), (ENDED,)], [(100, True)], [(100, True)]),
    # past max_steps, by others
    ([(TRAINING, at(103)), (TRAINING,), (ENDED,)], [(103, True)], [(103, True)]),
    # only the newest one
    ([(TRAINING, at(10), at(20), at(30)), (ENDED,)], [(30, False)], [(30, False), (30, True)]),
    ([(ENDED,)], [], []),
], ids=['max_steps', 'early', 'early, two', 'early, late', 'only the end', 'past it', 'newest', 'nothing'])
def test_what_is_evaluated_and_exported(tmp_path, looks, heard, exported):
    run = Run(tmp_path, *looks).run()
    assert run.listener.told == [(step, step, final) for step, final in heard]
    assert run.exporter.told == [(step, step, final) for step, final in exported]
    assert sum(final for *_, final in run.exporter.told) == bool(exported)
    assert run.round == len(looks)


@pytest.mark.parametrize('state, error, ever_seen', [
    (STOPPED, TrainingStopped, None), (LOST, TrainingLost, True), (ABSENT, TrainingLost, False)])
@pytest.mark.parametrize('before, heard', [
    ([], []), ([(TRAINING, at(50))], [50]), ([(TRAINING, at(50)), ('last', at(60))], [50, 60])])
def test_there_is_nothing_more_to_wait_for(tmp_path, state, error, ever_seen, before, heard):
    looks = [(state if told == 'last' else told, *done) for told, *done in before]
    run = Run(tmp_path, *looks, (state,))
    with pytest.raises(error) as caught:
        run.run()
    assert [step for step, *_ in run.listener.told] == heard
    assert not any(final for *_, final in run.exporter.told)
    if ever_seen is not None:
        assert caught.value.ever_seen == ever_seen and '31 s' in str(caught.value)


@pytest.mark.parametrize('skip, looks, heard', [
    (100, [(ENDED, at(100)), (ENDED,)], []),
    (100, [(STARTING, at(100)), (ENDED,)], []),
    (50, [(ENDED, at(50)), (ENDED,)], []),  # had stopped early
    (50, [(TRAINING, at(50)), (TRAINING, at(100)), (ENDED,)], [50, 100]),
    (50, [(ENDED, at(60)), (ENDED,)], [60]),
])
def test_a_finished_run_that_is_started_again(tmp_path, skip, looks, heard):
    run = Run(tmp_path, *looks, skip=skip).run()
    assert [step for step, *_ in run.listener.told] == heard
    assert bool(run.exporter.told) == bool(heard)


@pytest.fixture
def warnings(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger('estimator_trainer'), 'propagate', True)
    return lambda: [record.getMessage() for record in caplog.records if record.name == 'estimator_trainer']


def delete_data(model_dir, step):
    os.unlink(os.path.join(model_dir, f'model.ckpt-{step}.data-00000-of-00001'))


@pytest.mark.parametrize('make', [FakeEstimator, real_estimator])
@pytest.mark.parametrize('damage', [delete_data, cut_short])
def test_a_checkpoint_that_is_gone_or_damaged_is_skipped(tmp_path, make, damage, warnings):
    run = Run(tmp_path, (TRAINING, at(50), (damage, 50)), (TRAINING,), (TRAINING, at(60)), (ENDED,),
              make=make).run()
    assert [step for step, *_ in run.listener.told] == [60]
    warning, = warnings()
    assert 'model.ckpt-50' in warning and '\n' not in warning


def test_a_checkpoint_that_is_deleted_while_it_is_evaluated(tmp_path, warnings):
    class Slow(FakeEstimator):
        def evaluate(self, input_fn, steps, hooks, checkpoint_path):
            if checkpoint_path.endswith('-50'):
                delete(self.model_dir, 50)
            return super().evaluate(input_fn, steps, hooks, checkpoint_path)

    run = Run(tmp_path, (TRAINING, at(50)), (TRAINING, at(60)), (ENDED,), make=Slow).run()
    assert [step for step, *_ in run.listener.told] == [60] and len(warnings()) == 1


def test_the_last_one_is_damaged_so_the_one_before_is_exported(tmp_path):
    run = Run(tmp_path, (TRAINING, at(50)), (ENDED, at(60), (cut_short, 60)), (ENDED,)).run()
    assert run.listener.told == [(50, 50, False)]
    assert run.exporter.told == [(50, 50, False), (50, 50, True)]


@pytest.mark.parametrize('error', [ValueError('a bug'), tf.errors.NotFoundError(None, None, 'data/x')])
def test_an_error_of_the_jobs_is_not_laid_to_the_checkpoint(tmp_path, error):
    def input_fn():
        raise error

    with pytest.raises(type(error)) as caught:
        Run(tmp_path, (TRAINING, at(50)), input_fn=input_fn).run()
    assert caught.value is error


def test_a_real_estimator(tmp_path):
    run = Run(tmp_path, (TRAINING, at(50)), (ENDED,), make=real_estimator).run()
    assert run.listener.told == [(50, 50, False)] and run.exporter.told[-1] == (50, 50, True)
    assert (tmp_path / 'eval').is_dir()
