"""The graph of an Estimator's evaluation, built once and run for one checkpoint after the other.

`Estimator.evaluate` calls the input_fn and the model_fn each time, which takes longer than the evaluation of a small
model. What is kept here is the graph, not the session. A new session restores the checkpoint, and has new metrics,
tables, iterators and random operations, each at the beginning of its seed: the results are those of
`Estimator.evaluate`, bit for bit. Between evaluations no variable is in memory. The one difference: what the model_fn
reads or draws in Python stays as it was when the graph was built.
"""

import traceback

import tensorflow as tf
from tensorflow.python.training import basic_session_run_hooks, evaluation
from tensorflow_estimator.python.estimator import estimator as upstream

_v1 = tf.compat.v1
RESTORED = 'a checkpoint'  # any: upstream only asks whether there is one
_TENSORFLOW = ('tensorflow', 'tensorflow_estimator')


class CannotBeKept(Exception):
    """Why an evaluation needs a graph of its own each time."""


class KeptGraph:
    """The evaluation of an Estimator, which follows upstream's `_actual_eval` and `_evaluate_once`.

    Args:
        estimator: its model_fn is called once, here.
        input_fn: the data set that it makes is begun anew for each checkpoint.
        steps: at most so many batches; None: all.

    Raises:
        CannotBeKept: the graph serves a single evaluation.
    """

    def __init__(self, estimator, input_fn, steps):
        self._estimator = estimator
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._build(input_fn, steps)

    @property
    def metric_names(self) -> set:
        return set(self._values) - {_v1.GraphKeys.GLOBAL_STEP}

    def evaluate(self, checkpoint: str, evaluated=lambda: None) -> dict:
        """Returns and writes what `Estimator.evaluate` does. `evaluated` is called after each batch."""
        estimator = self._estimator
        with self._graph.as_default(), scope(estimator._eval_distribution):
            results = self._run(checkpoint, evaluated)
            step, folder = results[_v1.GraphKeys.GLOBAL_STEP], estimator.eval_dir()
            upstream._write_dict_to_summary(folder, results, step)
            upstream._write_checkpoint_path_to_summary(folder, checkpoint, step)
        return results

    def _build(self, input_fn, steps) -> None:
        strategy = self._estimator._eval_distribution
        if strategy:
            basic_session_run_hooks.get_or_create_steps_per_run_variable()  # outside the scope: not mirrored
        stops, end_of_input = self._estimator._convert_eval_steps_to_hooks(steps), tf.estimator.SessionRunHook()
        with scope(strategy):
            scaffold, update, self._values, hooks = self._estimator._evaluate_build_graph(
                input_fn, [end_of_input, *stops], RESTORED
            )
            self._updates = [update, _v1.assign_add(evaluation._get_or_create_eval_step(), 1, use_locking=True)]
            for stop in stops:
                stop._set_evals_completed_tensor(evaluation._get_latest_eval_step_value(self._updates))
            first = hooks.index(end_of_input)
            input_hooks, others = hooks[:first], hooks[first + 1 :]
            _check_hooks(others)
            for hook in hooks:
                hook.begin()
            self._scaffold = (scaffold or _v1.train.Scaffold()).finalize()
            for hook in others:  # as each evaluation does, when the graph is final
                _begin_again(hook)
        self._hooks = [*map(_AlreadyBegun, input_hooks), *others]

    def _run(self, checkpoint, evaluated) -> dict:
        creator = _v1.train.ChiefSessionCreator(
            self._scaffold,
            master=self._estimator._config.evaluation_master,
            config=self._estimator._session_config,
            checkpoint_filename_with_path=checkpoint,
        )
        values = _v1.train.FinalOpsHook(self._values)
        with _v1.train.MonitoredSession(creator, [*self._hooks, values]) as session:
            try:
                while not session.should_stop():
                    session.run(self._updates)
                    evaluated()
            except (tf.errors.OutOfRangeError, StopIteration) as end_of_data:
                # Its frames and it refer to each other, and would keep the session until garbage is collected.
                traceback.clear_frames(end_of_data.__traceback__)
        return values.final_ops_values


def scope(strategy):
    return (strategy or tf.distribute.get_strategy()).scope()


def _check_hooks(hooks) -> None:
    """TensorFlow's own hooks are as new after `begin`. What a job's hook keeps is not known."""
    for hook in hooks:
        if type(hook).__module__.split('.')[0] not in _TENSORFLOW:
            raise CannotBeKept(f"{type(hook).__name__} of its evaluation_hooks is the job's own and may keep a state")


def _begin_again(hook) -> None:
    try:
        hook.begin()
    except RuntimeError as error:
        raise CannotBeKept(f'{type(hook).__name__} of its evaluation_hooks cannot begin twice ({error})') from error


class _AlreadyBegun(tf.estimator.SessionRunHook):
    """Initializes the input. Its `begin` adds operations, which it needs once."""

    def __init__(self, hook):
        self.after_create_session = hook.after_create_session
