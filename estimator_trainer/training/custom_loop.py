"""Trains a Keras model with a loop of our own: strategy.run and a tape."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_trainer.jobs import losses
from estimator_trainer.jobs.job import KerasParts
from estimator_trainer.jobs.job_types import KerasModel, KerasOptimizer, Tensors
from estimator_trainer.training import accumulated_batches, batch_gradients, loss_scaling
from estimator_trainer.training.keras_calls import losses_of_calls
from estimator_trainer.training.keras_training import KerasTraining
from estimator_trainer.training.trainer import Setup


class CustomLoopTrainer:
    """A trainer.Trainer. With --steps_per_call=1 Python goes over the distributed data set, and each step is one call
    of a tf.function; otherwise, with float16, and where that would drop the last batches, a tf.function takes steps
    from an iterator (`losses_of_calls`)."""

    evaluates_first_checkpoint = False

    def __init__(self, setup: Setup):
        self._setup = setup

    def train(self, saved: Callable[[int], object]) -> None:
        with KerasTraining(self._setup, saved) as run:
            setup, loop, stops = self._setup, self._setup.loop, run.begins.stop
            if stops:
                return
            batches, params = run.batches(), setup.params.as_dict()
            xla = setup.plan.config.xla
            steps = ModelSteps(run.strategy, run.model, run.optimizer, run.parts, params, batches.element_spec, xla)
            single = setup.plan.config.most_steps_per_call == setup.plan.config.accumulate_steps == 1
            if single and not run.loss_scale and not run.next_drops_batches:
                in_time = measured(iter(batches), setup.waits.for_input, time.perf_counter)
                calls: Iterator[Any] = ([steps.one(batch)] for batch in in_time)
            else:
                iterator = run.taken() or iter(batches)
                step = steps.repeated(run.loss_scale) if run.loss_scale else steps.replica_step
                calls = losses_of_calls(setup, run.strategy, step, iterator)
            first, rate = loop.step, run.rate()
            while not stops:
                loop.begins_call()
                losses = next(calls, None)
                if losses is None:
                    break  # the data have ended
                stops = run.follow(loop.after(run.read_step(), np.asarray(losses)))
                if stops or run.is_at_end_of_epoch:
                    run.say_epoch(first, rate, steps.results())
                    first, rate = loop.step, run.rate()
        loop.check_trained()


class ModelSteps:
    """Training steps of a model under a strategy.

    Metrics are of single examples, since `results` was last asked for.

    Args:
        spec: element_spec of the distributed data set.
        xla: of `batch_gradients.make`.

    Attributes:
        one: (batch) -> the loss over the global batch of one training step, a tf.function. Its
            signature says which batches may be short (`losses.global_examples`).
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: KerasModel,
        optimizer: KerasOptimizer,
        parts: KerasParts,
        params: Mapping[str, Any],
        spec: Tensors,
        xla: bool = False,
    ):
        self._strategy, self._model, self._optimizer = strategy, model, optimizer
        self._pass = batch_gradients.make(model, parts, dict(params), xla)
        with strategy.scope():
            self._metrics = {'loss': tf.keras.metrics.Mean(name='loss')}
            self._metrics.update(losses.metrics_of(parts, dict(params)))
        self.one = tf.function(self._step, input_signature=[spec])

    def results(self) -> dict[str, Any]:
        """The metrics so far that are single numbers; all begin anew. Every task has to ask at the same step."""
        results = {name: metric.result().numpy() for name, metric in self._metrics.items()}
        for metric in self._metrics.values():
            metric.reset_state()
        return {name: value for name, value in results.items() if np.size(value) == 1}

    def _step(self, batch: Tensors) -> tf.Tensor:
        shares = self._strategy.run(self.replica_step, (batch,))
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, shares, axis=None)

    def replica_step(self, *batches: tuple[Tensors, Tensors]) -> tf.Tensor:
        """One replica's part of a step, with one batch or several. Returns its share of the loss."""
        share, gradients = accumulated_batches.added_up(self._gradients, batches)
        self._optimizer.apply_gradients(zip(gradients, self._model.trainable_variables))
        return share

    def repeated(self, scale: loss_scaling.LossScale) -> loss_scaling.RepeatedStep:
        """A step with a scaled loss, in the place of `replica_step`."""
        return loss_scaling.RepeatedStep(
            self._strategy, scale, self._model, self._optimizer, self._gradients, self._metrics.values()
        )

    def _gradients(
        self, features: Tensors, labels: Tensors, scale: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, accumulated_batches.Gradients]:
        of_examples, share, outputs, gradients = self._pass(features, labels, scale)
        for name, metric in self._metrics.items():
            if name == 'loss':
                metric.update_state(losses.of_examples(of_examples))
            else:
                metric.update_state(labels, outputs)
        return share, gradients


def measured(
    batches: Iterator[Tensors], waited: Callable[[float], object], clock: Callable[[], float]
) -> Iterator[Tensors]:
    """Yields the batches. `waited` is told how long each of them had to be waited for."""
    while True:
        began = clock()
        try:
            batch = next(batches)
        except StopIteration:
            return
        waited(clock() - began)
        yield batch
