"""The graph of an Estimator's evaluation, built once and run for one checkpoint after the other.

`Estimator.evaluate` calls the input_fn and the model_fn each time, which takes longer than the evaluation of a small
model. This module keeps the graph, not the session. A new session restores the checkpoint and starts metrics, tables,
iterators and random operations from their beginning, so the results are those of `Estimator.evaluate`, bit for bit.
Between evaluations no variable is in memory. There is one difference: what the model_fn reads or draws in Python stays
as it was when the graph was built.
"""

import traceback

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import evaluation_graph

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
        with self._graph.as_default(), scope(evaluation_graph.strategy(estimator)):
            results = self._run(checkpoint, evaluated)
            evaluation_graph.write(estimator, results, checkpoint)
        return results

    def _build(self, input_fn, steps) -> None:
        strategy = evaluation_graph.strategy(self._estimator)
        if strategy:
            with lacks.told_as(CannotBeKept):
                evaluation_graph.make_steps_per_run()  # outside the scope: not mirrored
        stops, end_of_input = evaluation_graph.stops(self._estimator, steps), tf.estimator.SessionRunHook()
        with scope(strategy):
            scaffold, update, self._values, hooks = evaluation_graph.build(
                self._estimator, input_fn, [end_of_input, *stops], RESTORED
            )
            with lacks.told_as(CannotBeKept):
                self._updates = evaluation_graph.counted(update, stops)
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
        creator = evaluation_graph.session_creator(self._estimator, self._scaffold, checkpoint)
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
