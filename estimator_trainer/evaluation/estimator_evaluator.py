"""Evaluates and exports the checkpoints of an Estimator."""

import logging

import tensorflow as tf

from estimator_trainer.compat.patches import evaluation_graph, seeds
from estimator_trainer.evaluation import default_signature, kept_graph
from estimator_trainer.evaluation.progress import EvaluationProgress

_log = logging.getLogger('estimator_trainer')


class EstimatorEvaluator:
    """An Estimator with the data of its evaluation; an evaluation.Evaluator.

    The data of --dataset and of files are the same in all evaluations of a process: their graph is built for the first
    one and kept (`evaluation.kept_graph`), and the model_fn is called once. A job's own input_fn may read the present
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

    def __init__(self, estimator, input_fn, steps=None, started=lambda: None, same_data=False, progress=None):
        self._estimator, self._input_fn, self._steps, self._started = estimator, input_fn, steps, started
        self._progress = progress or EvaluationProgress(steps=steps)
        self._keeps, self._kept = same_data, None
        self.export_saved_model = default_signature.exporting(estimator)

    def metric_names(self) -> set:
        with seeds.kept():
            graph = self._graph()
            if graph is not None:
                return graph.metric_names
            with tf.Graph().as_default(), kept_graph.scope(evaluation_graph.strategy(self._estimator)):
                *_, values, _ = evaluation_graph.build(self._estimator, self._input_fn, [], kept_graph.RESTORED)
        return set(values) - {tf.compat.v1.GraphKeys.GLOBAL_STEP}

    def evaluate(self, checkpoint: str) -> dict:
        self._started()
        self._progress.begins(checkpoint)
        graph = self._graph()
        if graph is None:
            hooks = [_Batches(self._progress)]
            return self._estimator.evaluate(self._input_fn, self._steps, hooks, checkpoint)
        try:
            return graph.evaluate(checkpoint, self._progress.batch)
        except BaseException:
            self._kept = None  # the next evaluation trusts nothing that this one has left
            raise

    def predictions(self, checkpoint: str) -> list[dict]:
        with seeds.kept():
            batches = self._estimator.predict(self._input_fn, checkpoint_path=checkpoint, yield_single_examples=False)
            return list(batches)  # its graph is the default one until the last batch

    def _graph(self):
        """The kept graph, or None where each evaluation needs its own."""
        if self._keeps and self._kept is None:
            try:
                self._kept = kept_graph.KeptGraph(self._estimator, self._input_fn, self._steps)
            except kept_graph.CannotBeKept as why:
                _log.info('evaluation: the graph is built anew for each checkpoint: %s', why)
                self._keeps = False
        return self._kept


class _Batches(tf.estimator.SessionRunHook):
    """Tells of each batch."""

    def __init__(self, progress):
        self._progress = progress

    def after_run(self, run_context, run_values):
        self._progress.batch()
