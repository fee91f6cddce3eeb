"""Evaluates and exports the checkpoints of an Estimator."""

import contextlib
import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import estimators, evaluation_graph, seeds, session_mends
from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation.evaluation_journal import EvaluationProgress
from estimator_trainer.evaluation.exact_evaluation import EvaluationInputFn
from estimator_trainer.jobs.job_types import Estimator, Tensors

if TYPE_CHECKING:
    from estimator_trainer.evaluation.serving_inputs import ServingInputFn

_log = logging.getLogger('estimator_trainer')
v1 = tf.compat.v1
DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_PREDICT = 'predict'
RESTORED = 'a checkpoint'  # any: upstream only asks whether there is one
_TENSORFLOW = ('tensorflow', 'tensorflow_estimator')


class EstimatorEvaluator:
    """An Estimator with the data of its evaluation; an evaluation.Evaluator.

    The data of --dataset and of files are the same in all evaluations of a process: their graph is built for the first
    one and kept (`KeptGraph`), and the model_fn is called once. A job's own input_fn may read the present
    state of a folder, or anything else of Python's, each time it is called: `Estimator.evaluate` calls it for each
    checkpoint. So it does where the graph cannot be used twice.

    Args:
        estimator: one of this process alone, whose evaluation is exact (`exact_evaluation.estimator_of`).
        input_fn: (input_context) -> data set of per-replica batches.
        steps: at most so many batches; None: all.
        started: () -> None, called as an evaluation begins.
        same_data: whether each call of input_fn makes the same data set.
        progress: is told of each evaluation and its batches.
    """

    def __init__(
        self,
        estimator: Estimator,
        input_fn: EvaluationInputFn,
        steps: int | None = None,
        started: Callable[[], object] = lambda: None,
        same_data: bool = False,
        progress: EvaluationProgress | None = None,
    ):
        session_mends.raise_every_error()  # in another session all predictions would come again
        self._estimator, self._input_fn, self._steps, self._started = estimator, input_fn, steps, started
        self._progress = progress or EvaluationProgress(steps=steps)
        self._keeps = same_data
        self._kept: KeptGraph | None = None

    def metric_names(self) -> set[str]:
        with seeds.kept():
            graph = self._graph()
            if graph is not None:
                return graph.metric_names
            with tf.Graph().as_default(), scope(evaluation_graph.strategy(self._estimator)):
                *_, values, _ = evaluation_graph.build(self._estimator, self._input_fn, [], RESTORED)
        return _single_numbers(values)

    def evaluate(self, checkpoint: str) -> dict[str, Any]:
        self._started()
        self._progress.begins(checkpoint)
        graph = self._graph()
        if graph is None:
            hooks = [_Batches(self._progress)]
            return self._progress.checked(self._estimator.evaluate(self._input_fn, self._steps, hooks, checkpoint))
        try:
            return graph.evaluate(checkpoint, self._progress)
        except BaseException:
            self._kept = None  # the next evaluation trusts nothing that this one has left
            raise

    def predictions(self, checkpoint: str) -> list[dict[str, Any]]:
        with seeds.kept():
            batches = self._estimator.predict(self._input_fn, checkpoint_path=checkpoint, yield_single_examples=False)
            return list(batches)  # its graph is the default one until the last batch

    def export_saved_model(
        self, folder: str, serving_input_fn: 'ServingInputFn', checkpoint_path: str | None = None, **options: Any
    ) -> bytes:
        """`Estimator.export_saved_model`, with the signature `serving_default`."""
        try:
            with estimators.export_outputs_completed(with_default_signature):
                return self._estimator.export_saved_model(
                    folder, serving_input_fn, checkpoint_path=checkpoint_path, **options
                )
        except UsageError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError):
            _log.error('export: the serving_input_fn has failed, or the model_fn on the features that it gives')
            raise

    def _graph(self) -> 'KeptGraph | None':
        """The kept graph, or None where each evaluation needs its own."""
        if self._keeps and self._kept is None:
            try:
                self._kept = KeptGraph(self._estimator, self._input_fn, self._steps)
            except CannotBeKept as why:
                _log.info('evaluation: the graph is built anew for each checkpoint: %s', why)
                self._keeps = False
        return self._kept


class _Batches(tf.estimator.SessionRunHook):
    """Tells of each batch."""

    def __init__(self, progress: EvaluationProgress):
        self._progress = progress

    def after_run(self, run_context: object, run_values: object) -> None:
        self._progress.batch()


class CannotBeKept(Exception):
    """Why an evaluation needs a graph of its own each time."""


class KeptGraph:
    """The graph of an Estimator's evaluation, built once and run for one checkpoint after the other.

    `Estimator.evaluate` calls the input_fn and the model_fn each time, which takes longer than the evaluation of a
    small model. This class keeps the graph, not the session. A new session restores the checkpoint and starts metrics,
    tables, iterators and random operations from their beginning, so the results are those of `Estimator.evaluate`, bit
    for bit. Between evaluations no variable is in memory. There is one difference: what the model_fn reads or draws in
    Python stays as it was when the graph was built.

    It follows upstream's `_actual_eval` and `_evaluate_once`.

    Args:
        estimator: its model_fn is called once, here.
        input_fn: the data set that it makes is begun anew for each checkpoint.
        steps: at most so many batches; None: all.

    Raises:
        CannotBeKept: the graph serves a single evaluation.
    """

    def __init__(self, estimator: Estimator, input_fn: EvaluationInputFn, steps: int | None):
        self._estimator = estimator
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._build(input_fn, steps)

    @property
    def metric_names(self) -> set[str]:
        return _single_numbers(self._values)

    def evaluate(self, checkpoint: str, progress: EvaluationProgress | None = None) -> dict[str, Any]:
        """Returns and writes what `Estimator.evaluate` does, if there are batches. `progress` is told of each."""
        estimator = self._estimator
        with self._graph.as_default(), scope(evaluation_graph.strategy(estimator)):
            results = self._run(checkpoint, progress.batch if progress else lambda: None)
            results = progress.checked(results) if progress else results
            evaluation_graph.write(estimator, results, checkpoint)
        return results

    def _build(self, input_fn: EvaluationInputFn, steps: int | None) -> None:
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
            self._scaffold = (scaffold or v1.train.Scaffold()).finalize()
            for hook in others:  # as each evaluation does, when the graph is final
                _begin_again(hook)
        self._hooks = [*map(_AlreadyBegun, input_hooks), *others]

    def _run(self, checkpoint: str, evaluated: Callable[[], object]) -> dict[str, Any]:
        creator = evaluation_graph.session_creator(self._estimator, self._scaffold, checkpoint)
        values = v1.train.FinalOpsHook(self._values)
        with v1.train.MonitoredSession(creator, [*self._hooks, values]) as session:
            try:
                while not session.should_stop():
                    session.run(self._updates)
                    evaluated()
            except (tf.errors.OutOfRangeError, StopIteration) as end_of_data:
                # Its frames and it refer to each other, and would keep the session until garbage is collected.
                traceback.clear_frames(end_of_data.__traceback__)
        return values.final_ops_values


def scope(strategy: tf.distribute.Strategy | None) -> contextlib.AbstractContextManager[object]:
    return (strategy or tf.distribute.get_strategy()).scope()


def _check_hooks(hooks: Iterable[tf.compat.v1.train.SessionRunHook]) -> None:
    """TensorFlow's own hooks are as new after `begin`. What a job's hook keeps is not known."""
    for hook in hooks:
        if type(hook).__module__.split('.')[0] not in _TENSORFLOW:
            raise CannotBeKept(f"{type(hook).__name__} of its evaluation_hooks is the job's own and may keep a state")


def _begin_again(hook: tf.compat.v1.train.SessionRunHook) -> None:
    try:
        hook.begin()
    except RuntimeError as error:
        raise CannotBeKept(f'{type(hook).__name__} of its evaluation_hooks cannot begin twice ({error})') from error


class _AlreadyBegun(tf.estimator.SessionRunHook):
    """Initializes the input. Its `begin` adds operations, which it needs once."""

    def __init__(self, hook: tf.compat.v1.train.SessionRunHook):
        self.after_create_session = hook.after_create_session


def with_default_signature(receiver_tensors: Tensors, export_outputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs of an export, with one for `serving_default` that these receivers can have. Servers and
    `tf.saved_model` callers ask for this signature.

    The heads of Estimators give this name to the signature of their classification or regression, which takes
    serialized tf.Examples in one string tensor. If the serving_input_fn takes raw tensors, TensorFlow leaves that
    signature out and warns. Then `serving_default` becomes the same as `predict`, or as another prediction of the
    model_fn. If the model_fn has no prediction, it gives the tensors of the classification or regression. All other
    signatures keep their names and contents.

    If there is none, one line says why.
    """
    why = _refused(export_outputs.get(DEFAULT), receiver_tensors)
    if why is None:
        return export_outputs
    names = [_PREDICT, *(name for name in export_outputs if name not in (_PREDICT, DEFAULT))]
    for name in names:
        output = export_outputs.get(name)
        if isinstance(output, tf.estimator.export.PredictOutput) and _refused(output, receiver_tensors) is None:
            return {**export_outputs, DEFAULT: output}
    given = _as_prediction(export_outputs.get(DEFAULT))
    if given:
        return {**export_outputs, DEFAULT: tf.estimator.export.PredictOutput(given)}
    _log.warning('WARNING: the export has no signature %s: %s', DEFAULT, why)
    return export_outputs


def _as_prediction(output: Any) -> dict[str, tf.Tensor]:
    """The tensors of a classification or regression, under the names that its signature has."""
    if isinstance(output, tf.estimator.export.RegressionOutput):
        return {'outputs': output.value}
    if isinstance(output, tf.estimator.export.ClassificationOutput):
        given = {'scores': output.scores, 'classes': output.classes}
        return {name: tensor for name, tensor in given.items() if tensor is not None}
    return {}


def _refused(output: Any, receiver_tensors: Tensors) -> str | None:
    """Why there is no such signature with these receivers; None: there is."""
    if output is None:
        return 'the model_fn gives several export_outputs and names none of them so'
    tensors = receiver_tensors if isinstance(receiver_tensors, dict) else {'input': receiver_tensors}
    try:
        output.as_signature_def(tensors)
    except ValueError as error:
        return str(error).splitlines()[0]
    return None


def _single_numbers(values: Mapping[str, tf.Tensor]) -> set[str]:
    """The names of the metrics by which something can be decided."""
    shapes = {name: value.shape for name, value in values.items() if name != v1.GraphKeys.GLOBAL_STEP}
    return {name for name, shape in shapes.items() if shape.rank is None or shape.num_elements() == 1}
