"""Mends of Estimator's evaluations and exports."""

from __future__ import annotations

import functools
import gc
import inspect
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

OWN_LOSS_METRIC = 'estimator_trainer/own_loss_metric'  # of a graph: anything in it says so
_SHARE = 0.05  # of the time; a collection takes about 0.2 s with TensorFlow imported


def allow_own_loss_metric(module: Any) -> None:
    """Lets a model_fn supply the evaluation metric `loss` itself, if it says so in its graph.

    Touches: tensorflow_estimator.python.estimator.estimator._verify_and_create_loss_metric
    Without it: a model_fn may not supply the evaluation metric "loss" itself, so that a short last batch counts as much
      as a full one
    For: every program
    """
    original = module._verify_and_create_loss_metric

    @functools.wraps(original)
    def verify(
        eval_metric_ops: dict[str, Any], loss: tf.Tensor, distribution: tf.distribute.Strategy | None = None
    ) -> dict[str, Any]:
        import tensorflow as tf

        if 'loss' in eval_metric_ops and tf.compat.v1.get_collection(OWN_LOSS_METRIC):
            return eval_metric_ops
        return original(eval_metric_ops, loss, distribution)

    module._verify_and_create_loss_metric = verify


def free_graphs(module: Any) -> None:
    """Frees the graph of an evaluation when it is over.

    Touches: Estimator.evaluate, predict and _export_all_saved_models
    Without it: evaluate, predict and export leave their graphs to a garbage collector that seldom comes: memory grows
      with the number of evaluations
    For: every program

    `evaluate`, `predict` and `export_saved_model` build a graph each, with the input_fn's arrays in it as constants.
    Graph, operations and tensors refer to each other, so that only Python's cyclic garbage collector frees them, and in
    a process that holds a big training graph it hardly ever looks at old objects: with 30 MB of data, the process grew
    by 22 MB with each evaluation.
    """
    collect = _Collector()
    for name in ('evaluate', 'predict', '_export_all_saved_models'):
        method = getattr(module.Estimator, name)
        wrap = _generator if inspect.isgeneratorfunction(method) else _function
        setattr(module.Estimator, name, wrap(method, collect))


def _function(method: Callable[..., Any], collect: Callable[[], Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        finally:
            collect()

    return call


def _generator(method: Callable[..., Any], collect: Callable[[], Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def generate(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        try:
            yield from method(self, *args, **kwargs)
        finally:
            collect()

    return generate


class _Collector:
    """Collects garbage, but for no more than `_SHARE` of the time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, collect: Callable[[], Any] = gc.collect) -> None:
        self._clock, self._collect = clock, collect
        self._due = 0.0

    def __call__(self) -> None:
        start = self._clock()
        if start < self._due:
            return
        self._collect()
        end = self._clock()
        self._due = end + (end - start) / _SHARE


def remember_best(module: Any) -> None:
    """Makes `BestExporter.export` remember the best model over a restart.

    Touches: BestExporter.export, and what it keeps in private attributes
    Without it: BestExporter exports a worse model after a restart
    For: every program

    Upstream reads the best evaluation so far from the event files, but it exports the first model after a restart in
    any case: the evaluation of that model is already in those files, so that the model could never be better than the
    best. Here that evaluation is left out, and the folder of the exports tells whether there is an export.
    """
    module.BestExporter.export = export_best


def export_best(
    self: Any,
    estimator: tf.estimator.Estimator,
    export_path: str,
    checkpoint_path: str,
    eval_result: dict[str, Any] | None,
    is_the_final_export: bool,
) -> Any:
    """Exports if nothing is exported yet or the result beats the best earlier one."""
    import tensorflow as tf

    if self._model_dir != estimator.model_dir and self._event_file_pattern:
        self._model_dir = estimator.model_dir
        step = (eval_result or {}).get(tf.compat.v1.GraphKeys.GLOBAL_STEP)
        self._best_eval_result = _best_earlier(
            os.path.join(self._model_dir, self._event_file_pattern), self._compare_fn, step
        )
        # Without a step nothing tells this evaluation from the earlier ones: it is exported, as upstream does.
        self._has_exported = step is not None and _has_exports(export_path)
    if (
        self._has_exported
        and self._best_eval_result is not None
        and not self._compare_fn(best_eval_result=self._best_eval_result, current_eval_result=eval_result)
    ):
        return None
    self._best_eval_result = eval_result
    result = self._saved_model_exporter.export(
        estimator, export_path, checkpoint_path, eval_result, is_the_final_export
    )
    self._garbage_collect_exports(export_path)
    self._has_exported = True
    return result


def _best_earlier(pattern: str, compare_fn: Callable[..., Any], step: int | None) -> dict[str, float] | None:
    """The best evaluation in the event files, those of `step` aside."""
    import tensorflow as tf

    best = None
    for path in tf.io.gfile.glob(pattern):
        for event in tf.compat.v1.train.summary_iterator(path):
            result = {value.tag: value.simple_value for value in event.summary.value if value.HasField('simple_value')}
            if (
                result
                and event.step != step
                and (best is None or compare_fn(best_eval_result=best, current_eval_result=result))
            ):
                best = result
    return best


def _has_exports(path: str) -> bool:
    import tensorflow as tf

    try:
        return tf.io.gfile.isdir(path) and any(name.strip('/').isdigit() for name in tf.io.gfile.listdir(path))
    except tf.errors.OpError:  # a folder that may not be listed: it is exported, as upstream does
        return False
