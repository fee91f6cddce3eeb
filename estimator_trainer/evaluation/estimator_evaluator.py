"""Evaluates and exports the checkpoints of an Estimator."""

import tensorflow as tf


class EstimatorEvaluator:
    """An Estimator with the data of its evaluation; an evaluation.Evaluator.

    Args:
        estimator: one of this process alone, whose evaluation is exact (`exact_evaluation.estimator_of`).
        input_fn: (input_context) -> data set of per-replica batches.
        steps: at most so many batches; None: all.
        started: () -> None, called as an evaluation begins.
    """

    def __init__(self, estimator, input_fn, steps=None, started=lambda: None):
        self._estimator, self._input_fn, self._steps, self._started = estimator, input_fn, steps, started
        self.export_saved_model = estimator.export_saved_model

    def evaluate(self, checkpoint: str) -> dict:
        return self._estimator.evaluate(
            self._input_fn, steps=self._steps, hooks=[_Started(self._started)], checkpoint_path=checkpoint
        )


class _Started(tf.estimator.SessionRunHook):
    def __init__(self, started):
        self._started = started

    def begin(self):
        self._started()
