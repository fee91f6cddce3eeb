"""Evaluates and exports the checkpoints of keras_fit and custom_loop; `estimator_evaluator` does so for Estimators."""

import functools
import itertools
import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from estimator_trainer.compat import quiet
from estimator_trainer.compat.patches import seeds
from estimator_trainer.data import batch
from estimator_trainer.evaluation.evaluation_journal import EvaluationProgress
from estimator_trainer.evaluation.exact_evaluation import EvaluationInputFn
from estimator_trainer.jobs import keras_models, losses
from estimator_trainer.jobs.job import Job
from estimator_trainer.jobs.job_types import KerasMetric, Tensors
from estimator_trainer.run_dir import checkpoints, summaries

if TYPE_CHECKING:
    from estimator_trainer.evaluation.serving_inputs import ServingInputFn


class KerasEvaluator:
    """The model of a job, in one process, with the weights of a checkpoint; an evaluation.Evaluator.

    Args:
        params: the job's and the run's, as a dict.
        input_fn: (input_context) -> data set of per-replica batches.
        steps: at most so many batches for each replica; None: all.
        strategy: whose replicas share an evaluation, or None.
        started: () -> None, called as an evaluation begins.
        progress: is told of each evaluation and its batches.
        same_data: whether each call of input_fn makes the same data set.
    """

    def __init__(
        self,
        job: Job,
        params: Mapping[str, Any],
        model_dir: str,
        input_fn: EvaluationInputFn,
        steps: int | None = None,
        strategy: tf.distribute.Strategy | None = None,
        started: Callable[[], object] = lambda: None,
        progress: EvaluationProgress | None = None,
        same_data: bool = False,
    ):
        assert job.make_model and job.parts  # --loop is refused for other jobs
        self._parts, self._params, self._started = job.parts, dict(params), started
        self._input_fn, self._steps, self._keeps = input_fn, steps, same_data
        self._progress = progress or EvaluationProgress(steps=steps)
        self._strategy = strategy or tf.distribute.get_strategy()
        self._scalars = summaries.Scalars(os.path.join(model_dir, 'eval'))
        self._restored: str | None = None
        self._batches: Any = None
        self._adds_losses: bool | None = None  # a layer adds losses of a batch; None: not known yet
        # Made here, so that a process which trains has not begun: it would draw other numbers after `set_random_seed`.
        with seeds.kept(), self._strategy.scope():
            if 'seed' in self._params:  # what make_model draws, such as random features, is that of the training
                tf.keras.utils.set_random_seed(self._params['seed'])
            self.model = keras_models.made(job.make_model, dict(self._params))
            self._penalty = tf.keras.metrics.Mean(name='penalty')

    @functools.cached_property
    def _metrics(self) -> dict[str, KerasMetric]:
        with self._strategy.scope():
            return {**losses.metrics_of(self._parts, dict(self._params)), 'loss': tf.keras.metrics.Mean(name='loss')}

    def metric_names(self) -> set[str]:
        return set(self._metrics)

    def restore(self, checkpoint: str) -> None:
        """Takes the weights of a checkpoint. What recurrent layers keep from batch to batch begins with zeros.

        Raises:
            AssertionError: a weight of the model is not in it.
        """
        if checkpoint != self._restored:
            status = tf.train.Checkpoint(model=self.model).restore(checkpoint)
            status.assert_existing_objects_matched().expect_partial()
            self._restored = checkpoint
        for state in keras_models.rnn_states(self.model):
            state.assign(tf.zeros_like(state))

    def evaluate(self, checkpoint: str) -> dict[str, Any]:
        """The loss and the metrics over single examples, each counted once, and the global step."""
        self._started()
        self.restore(checkpoint)
        step = checkpoints.step_of(checkpoint)
        self._progress.begins(checkpoint)
        results = self._progress.checked(self._evaluate_weights())
        self._scalars.write(step, {name: value for name, value in results.items() if np.ndim(value) == 0})
        return {**results, 'global_step': step}

    def _evaluate_weights(self) -> dict[str, Any]:
        """`evaluate` with the weights as they are."""
        if self._batches is None or not self._keeps:
            self._batches = self._strategy.distribute_datasets_from_function(self._input_fn)
            keras_models.check_pairs(self._batches.element_spec, 'the evaluation')
        for metric in (self._penalty, *self._metrics.values()):
            metric.reset_state()
        for of_replicas in itertools.islice(self._batches, self._steps):
            self._step(of_replicas)
            self._progress.batch()
        results = {name: metric.result().numpy() for name, metric in self._metrics.items()}
        if self._adds_losses:
            results['loss'] += float(self._penalty.result())
        elif self._parts.penalty and (penalty := self._parts.penalty(self.model, self._params)) is not None:
            results['loss'] += float(penalty)
        return results

    @tf.function(reduce_retracing=True)
    def _step(self, of_replicas: Tensors) -> None:
        self._strategy.run(self._replica_step, of_replicas)

    def _replica_step(self, features: Tensors, labels: Tensors) -> None:
        outputs = losses.outputs_of(self.model, features, training=False)
        if self._adds_losses is None:  # those of the weights are computed anew by each question
            self._adds_losses = any(one is again for one, again in zip(self.model.losses, self.model.losses))
        if self._adds_losses and self._parts.penalty:  # of each batch, with its examples as weight
            penalty, examples = self._parts.penalty(self.model, self._params), batch.size(labels, features)
            self._penalty.update_state(0.0 if penalty is None else penalty, tf.cast(examples, tf.float32))
        for name, metric in self._metrics.items():
            if name == 'loss':
                metric.update_state(losses.of_examples(self._parts.loss(labels, outputs, self._params)))
            else:
                metric.update_state(labels, outputs)

    def predictions(self, checkpoint: str) -> list[dict[str, Any]]:
        self.restore(checkpoint)
        outputs = (losses.outputs_of(self.model, features, training=False) for features, _ in self._input_fn())
        batches = map(self._parts.predictions, outputs)
        return [{name: np.asarray(value) for name, value in each.items()} for each in batches]

    def export_saved_model(
        self,
        folder: str,
        serving_input_fn: 'ServingInputFn',
        checkpoint_path: str,
        assets_extra: Mapping[str, str] | None = None,
        **unused: Any,
    ) -> str:
        """Writes folder/<seconds since the epoch>, a SavedModel that tf.keras and TensorFlow load, and
        returns its path. Its signature takes what `serving_input_fn` does, as Estimator's exports."""
        self.restore(checkpoint_path)
        path = _timestamped(folder)
        temporary = os.path.join(folder, f'temp-{os.path.basename(path)}')
        with quiet.only_errors():  # Keras warns that the model is not compiled
            self.model.save(
                temporary,
                save_format='tf',
                include_optimizer=False,
                signatures={'serving_default': self._serving(serving_input_fn)},
            )
        for name, source in (assets_extra or {}).items():
            target = os.path.join(temporary, 'assets.extra', name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(source, target)
        os.replace(temporary, path)
        return path

    def _serving(self, serving_input_fn: 'ServingInputFn') -> Callable[[dict[str, tf.Tensor]], Mapping[str, Tensors]]:
        """A function from the receiver's tensors to the job's predictions."""
        names: list[str] = []

        def receive() -> dict[str, Tensors]:
            receiver = serving_input_fn()
            tensors = receiver.receiver_tensors
            tensors = tensors if isinstance(tensors, dict) else {'input': tensors}
            names.extend(tensors)
            return {'receive': list(tensors.values()), 'features': receiver.features}

        received = tf.compat.v1.wrap_function(receive, [])
        tensors = received.structured_outputs['receive']
        features_of = received.prune(tensors, received.structured_outputs['features'])

        @tf.function(
            input_signature=[
                {name: tf.TensorSpec(tensor.shape, tensor.dtype, name=name) for name, tensor in zip(names, tensors)}
            ]
        )
        def serve(inputs: dict[str, tf.Tensor]) -> Mapping[str, Tensors]:
            features = features_of(*(inputs[name] for name in names))
            return self._parts.predictions(self.model(features, training=False))

        return serve


def _timestamped(folder: str) -> str:
    os.makedirs(folder, exist_ok=True)
    seconds = int(time.time())
    while os.path.exists(os.path.join(folder, str(seconds))):
        seconds += 1
    return os.path.join(folder, str(seconds))
