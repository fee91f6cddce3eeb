"""The evaluator of a plain program ends after early stopping. With ESTIMATOR_TRAINER_FIXES=0 it waits for ever.

The mend acts after upstream's own checks, and raises nothing that upstream would not.
"""

import json
import sys
import types
from unittest import mock

import launch
import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import training_end as original
from estimator_trainer.supervisor.processes import ports
from tests.modules import copy_of

training_end = copy_of(original)  # these tests switch it on and off
LATE = training_end._LATE_SECS

_PROGRAM = """
import json, os, sys
import tensorflow as tf
v1 = tf.compat.v1
kind, model_dir, max_steps = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
is_evaluator = json.loads(os.environ['TF_CONFIG'])['task']['type'] == 'evaluator'
def model_fn(features, labels, mode):
    loss = tf.reduce_mean(v1.layers.dense(features['x'], 1) ** 2)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=v1.train.GradientDescentOptimizer(
        0.01).minimize(loss, v1.train.get_global_step()))
class Notes(tf.estimator.Exporter):
    name = 'notes'
    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if is_the_final_export:
            print('FINAL', eval_result['global_step'])
strategy = tf.distribute.MultiWorkerMirroredStrategy() if kind == 'strategy' and not is_evaluator else None
estimator = tf.estimator.Estimator(model_fn, config=tf.estimator.RunConfig(
    model_dir=model_dir, train_distribute=strategy, save_checkpoints_steps=7))
data = lambda: tf.data.Dataset.from_tensors({'x': [[1., 2.]]}).repeat()
asked = []
def stop():
    asked.append(1)
    return len(asked) > 3
hook = tf.estimator.experimental.make_early_stopping_hook(
    estimator, stop, run_every_secs=None, run_every_steps=10)
tf.estimator.train_and_evaluate(  # the evaluator looks every 600 s, as is the default
    estimator, tf.estimator.TrainSpec(data, max_steps=max_steps, hooks=[hook]),
    tf.estimator.EvalSpec(data, steps=2, start_delay_secs=0, exporters=Notes()))
print('STEP', estimator.get_variable_value('global_step'))
"""


@pytest.mark.slow
@pytest.mark.parametrize('kind, max_steps', [('plain', None), ('strategy', 5000)])
def test_the_evaluator_ends_after_early_stopping(tmp_path, kind, max_steps):
    program = tmp_path / 'program.py'
    program.write_text(_PROGRAM)
    command = [
        sys.executable,
        '-m',
        'estimator_trainer.compat',
        'run',
        program,
        kind,
        tmp_path / 'model',
        json.dumps(max_steps),
    ]
    (tmp_path / 'model').mkdir()  # with what an earlier run has left
    (tmp_path / 'model/training_end.json').write_text(
        json.dumps({'id': 'earlier', 'state': 'ended', 'max_steps': max_steps, 'step': 3})
    )

    def task(role):
        return launch.start(
            command,
            TF_CONFIG=json.dumps(
                {'cluster': {'chief': [f'localhost:{claimed.ports[0]}']}, 'task': {'type': role, 'index': 0}}
            ),
        )

    with ports.claim(1) as claimed, task('evaluator') as evaluator:
        # An evaluator that comes after the end would wait _LATE_SECS for a chief that begins again.
        with launch.killed_after(100, evaluator):
            assert any('not trained yet' in line for line in evaluator.stdout), 'it does not look for checkpoints'
        with task('chief') as chief:
            outputs = [launch.finished(process).output for process in (chief, evaluator)]
    assert [chief.returncode, evaluator.returncode] == [0, 0], outputs
    steps = [line.split()[1] for line in outputs[0].splitlines() if line.startswith('STEP')]
    finals = [line.split()[1] for line in outputs[1].splitlines() if line.startswith('FINAL')]
    assert steps == finals and 10 < int(steps[0]) < 5000, outputs


class Estimator:
    def __init__(self, model_dir, max_steps=None):
        self.config = types.SimpleNamespace(model_dir=model_dir, is_chief=True)
        self.spec = types.SimpleNamespace(max_steps=max_steps)

    def _train_model(self):
        return training_end._read(self.config.model_dir).get('state')


class Executor:
    """What upstream's does: it looks at the configuration, and then calls `Estimator.train`."""

    def __init__(self, estimator):
        self._estimator, self._train_spec, self._eval_spec = estimator, estimator.spec, None
        self._continuous_eval_listener = None

    def _start_distributed_training(self, fails=False):
        if fails:
            raise RuntimeError('Could not start server')
        return self._estimator._train_model()

    def _start_continuous_evaluation(self):
        raise TypeError('not an EvalSpec')


@pytest.fixture
def mended():
    """(model_dir, max_steps) -> an executor that is mended."""
    executor, estimator = type('Mended', (Executor,), {}), type('Mended', (Estimator,), {})
    upstream = types.SimpleNamespace(Estimator=estimator)
    training_end.mend(
        types.SimpleNamespace(_TrainingExecutor=executor, _ContinuousEvalListener=object, estimator_lib=upstream)
    )
    return lambda *args: executor(estimator(*args))


@pytest.fixture
def said(tmp_path, mended):
    """A function that writes training_end.json."""

    def say(state, id='a', max_steps=None, step=50):
        training_end._write(str(tmp_path), {'id': id, 'state': state, 'max_steps': max_steps, 'step': step})

    return say


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def watch(tmp_path, max_steps=None):
    clock = Clock()
    watch = training_end.Watch(str(tmp_path), max_steps, clock)
    watch.clock = clock
    return watch


def test_an_end_that_comes_is_believed(tmp_path, said):
    evaluator = watch(tmp_path)
    assert not evaluator.ended()
    said('training')
    assert not evaluator.ended()
    evaluator.clock.now = 10 * LATE
    assert not evaluator.ended()
    said('ended')
    assert evaluator.ended() and evaluator.last_step() == 50


def test_an_end_of_an_earlier_run_is_not(tmp_path, said):
    said('ended', 'earlier')
    evaluator = watch(tmp_path)
    assert not evaluator.ended()
    said('training', 'later')
    evaluator.clock.now = 10 * LATE
    assert not evaluator.ended()
    said('ended', 'later')
    assert evaluator.ended()


def test_unless_nobody_comes(tmp_path, said):
    said('ended')
    evaluator = watch(tmp_path)
    evaluator.clock.now = LATE - 1
    assert not evaluator.ended()
    evaluator.clock.now = LATE
    assert evaluator.ended()


def test_the_end_of_a_training_to_other_max_steps_is_not_meant(tmp_path, said):
    said('training')
    evaluator = watch(tmp_path, max_steps=200)
    said('ended', max_steps=100)
    evaluator.clock.now = 10 * LATE
    assert not evaluator.ended()


def test_a_program_that_trains_twice(tmp_path, said):
    first = watch(tmp_path)
    said('ended', 'first')
    assert first.ended()
    first.obeyed()
    said('ended', 'second')  # before the evaluator comes to its second call
    assert watch(tmp_path).ended()


@pytest.mark.parametrize('text', ['', '{', '[]', '{"state": 3}'])
def test_what_is_no_such_file_says_nothing(tmp_path, said, text):
    (tmp_path / 'training_end.json').write_text(text)
    assert not watch(tmp_path).ended()


def test_a_chief_that_fails_does_not_tell(tmp_path, said):
    with pytest.raises(KeyError), training_end.reported(str(tmp_path), True, None):
        training_end._of_thread.training.begins()
        raise KeyError
    assert training_end._read(str(tmp_path))['state'] == 'training'
    with training_end.reported(str(tmp_path), True, 7):
        pass
    assert training_end._read(str(tmp_path))['state'] == 'ended'


def test_others_tell_nothing(tmp_path, said):
    with training_end.reported(str(tmp_path), False, None):
        pass
    training_end.withhold()
    with training_end.reported(str(tmp_path), True, None):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_no_training(tmp_path, said):
    (tmp_path / 'file').touch()
    with training_end.reported(str(tmp_path / 'file' / 'model'), True, None):
        pass
    assert training_end._read(str(tmp_path / 'file' / 'model')) == {}


def test_upstreams_check_comes_before_training_end_json(tmp_path, mended):
    with pytest.raises(RuntimeError, match='Could not start server'):
        mended(str(tmp_path))._start_distributed_training(fails=True)
    assert list(tmp_path.iterdir()) == []
    assert mended(str(tmp_path))._start_distributed_training() == 'training'
    assert training_end._read(str(tmp_path))['state'] == 'ended'


@pytest.mark.parametrize('model_dir', [mock.Mock(), b'\xff', '/proc/no/such'])
def test_a_model_dir_of_any_kind_fails_where_upstream_does(mended, model_dir):
    executor = mended(model_dir, object())
    executor._estimator._train_model = lambda: 'trained'
    assert executor._start_distributed_training() == 'trained'
    with pytest.raises(TypeError, match='not an EvalSpec'):
        executor._start_continuous_evaluation()


@pytest.mark.parametrize('max_steps', [np.int64(7), np.int32(7), np.float32(7), 7, 7.0])
def test_max_steps_may_be_a_number_of_numpy(tmp_path, mended, max_steps):
    watch = training_end.Watch(str(tmp_path), 7)
    mended(str(tmp_path), max_steps)._start_distributed_training()
    assert training_end._read(str(tmp_path))['max_steps'] == 7 and watch.ended()


def test_a_checkpoint_without_a_step_costs_no_training(tmp_path, mended, monkeypatch):
    monkeypatch.setattr(tf.train, 'latest_checkpoint', mock.Mock(side_effect=ValueError('no global_step')))
    mended(str(tmp_path))._start_distributed_training()
    said = training_end._read(str(tmp_path))
    assert (said['state'], said['step']) == ('ended', None)
