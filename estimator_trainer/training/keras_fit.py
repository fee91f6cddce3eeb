"""Trains a Keras model with compile and fit, one epoch a call."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_trainer.jobs import losses
from estimator_trainer.jobs.job import KerasParts
from estimator_trainer.jobs.job_types import KerasModel, Tensors
from estimator_trainer.run_dir import summaries
from estimator_trainer.training import accumulated_batches, batch_gradients, from_memory, loss_scaling
from estimator_trainer.training.keras_calls import losses_of_calls
from estimator_trainer.training.keras_training import KerasTraining
from estimator_trainer.training.loop import Loop
from estimator_trainer.training.trainer import Setup


class KerasFitTrainer:
    """A trainer.Trainer. Epochs are the data's: one call of fit trains one of them, or what is left of it.
    Checkpoints are saved in it as they are due, and at its end."""

    evaluates_first_checkpoint = False

    def __init__(self, setup: Setup):
        self._setup = setup

    def train(self, saved: Callable[[int], object]) -> None:
        with KerasTraining(self._setup, saved) as run:
            setup, plan, loop = self._setup, self._setup.plan, self._setup.loop
            report = _Report(run, loop)
            if report.stops:
                return
            with run.strategy.scope():
                fitted = GlobalLossModel(run.model, run.parts, setup.params.as_dict(), plan.config.xla)
                fitted.compile(optimizer=run.optimizer)
            batches = ResumableDataset(run.batches())
            single = plan.config.most_steps_per_call == plan.config.accumulate_steps == 1
            if not single or run.loss_scale or run.next_drops_batches:
                fitted.take_several(setup, run.strategy, run.taken(), run.loss_scale)
            board = TensorBoard(plan.config.model_dir, run) if plan.is_chief else None
            while not report.stops:
                steps, first = run.steps_of_epoch(), loop.step
                epoch, rate = run.epoch, run.rate()
                report.last_step = first + steps
                try:
                    fitted.fit(
                        batches,
                        epochs=epoch + 1,
                        initial_epoch=epoch,
                        steps_per_epoch=steps,
                        verbose=0,
                        callbacks=[report, *([board] if board else [])],
                    )
                except ValueError as error:
                    if loop.step > first or 'Empty logs' not in str(error):
                        raise
                    break  # the data had ended with the last epoch
                run.say_epoch(first, rate, report.results)
                if loop.step - first < steps:
                    break  # stopped, or the data have ended
            if board:
                board.close()
        loop.check_trained()


class GlobalLossModel(tf.keras.Model):
    """A job's model with a train_step that computes the loss over the global batch.

    Keras's own takes the mean over a replica's batch and divides by the number of replicas: a short
    batch of one replica would count as much as the full ones of the others.
    """

    def __init__(self, model: KerasModel, parts: KerasParts, params: Mapping[str, Any], xla: bool = False):
        super().__init__(name='fitted', dtype='float32')  # else a policy of the job would scale the loss
        self.trained = model
        self._pass = batch_gradients.make(model, parts, dict(params), xla)
        self._loss_metric = tf.keras.metrics.Mean(name='loss')
        self._of_examples = losses.metrics_of(parts, dict(params))

    def call(self, features: Tensors, training: bool | None = None) -> Tensors:
        return self.trained(features, training=training)

    def results(self) -> dict[str, float]:
        """The metrics of the epoch so far that are single numbers, by the job's names. Asked for in every task."""
        metrics = {'loss': self._loss_metric, **self._of_examples}
        values = {name: metric.result() for name, metric in metrics.items()}
        return {name: float(value) for name, value in values.items() if np.size(value) == 1}

    def take_several(
        self,
        setup: Setup,
        strategy: tf.distribute.Strategy,
        taken: from_memory.Iterator | None = None,
        scale: loss_scaling.LossScale | None = None,
    ) -> None:
        """Lets a call of train_function take several steps. Each call of fit brings the same iterator
        (`ResumableDataset`), in whose place `taken` may give the batches. `scale`: of the loss."""
        self._calls: Iterator[np.ndarray] | None = None
        step = self._repeated(strategy, scale) if scale else self._replica_step

        def train_function(iterator: tf.distribute.DistributedIterator) -> dict[str, np.ndarray]:
            self._calls = self._calls or losses_of_calls(setup, strategy, step, taken or iterator)
            losses = next(self._calls, None)
            if losses is None:
                raise StopIteration  # as the iterator of a data set does
            return {'step_loss': losses}

        self.make_train_function = lambda force=False: train_function
        self.train_function = train_function

    def _repeated(self, strategy: tf.distribute.Strategy, scale: loss_scaling.LossScale) -> loss_scaling.RepeatedStep:
        metrics = [self._loss_metric, *self._of_examples.values()]
        return loss_scaling.RepeatedStep(strategy, scale, self.trained, self.optimizer, self._gradients, metrics)

    def _replica_step(self, *batches: tuple[Tensors, Tensors]) -> tf.Tensor:
        share, gradients = accumulated_batches.added_up(self._gradients, batches)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return share

    def train_step(self, data: tuple[Tensors, Tensors]) -> dict[str, tf.Tensor]:
        return {'step_loss': self._replica_step(data)}  # fit adds up what the replicas return

    def _gradients(
        self, features: Tensors, labels: Tensors, scale: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, accumulated_batches.Gradients]:
        of_examples, share, outputs, gradients = self._pass(features, labels, scale)
        self._loss_metric.update_state(losses.of_examples(of_examples))
        for metric in self._of_examples.values():
            metric.update_state(labels, outputs)
        return share, gradients


class ResumableDataset(tf.distribute.DistributedDataset):
    """A data set that each call of fit goes on with where the last one has stopped."""

    def __init__(self, batches: tf.distribute.DistributedDataset):
        self._iterator, self._spec = iter(batches), batches.element_spec

    def __iter__(self) -> tf.distribute.DistributedIterator:
        return self._iterator

    @property
    def element_spec(self) -> Tensors:
        return self._spec


class _Report(tf.keras.callbacks.Callback):
    """Tells the loop of each call, and does what it says.

    Attributes:
        stops: whether training does.
        last_step: of this call of fit, which counts calls of train_function.
        results: the metrics of the last epoch, over its examples. Every task asks for them, once in an
            epoch: a result that train_step returned would be all-reduced in every step.
    """

    def __init__(self, run: KerasTraining, loop: Loop):
        super().__init__()
        self._run, self._loop, self.stops = run, loop, run.begins.stop

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._loop.begins_call()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any]) -> None:
        losses = np.atleast_1d(logs['step_loss'])
        self.stops = self._run.follow(self._loop.after(self._run.read_step(), losses))
        if self.stops or self._loop.step >= self.last_step:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        self.results = self.model.results()
        logs.update(self.results)


class TensorBoard(tf.keras.callbacks.Callback):
    """Writes what Keras's callback of this name does into `train/`, by epoch, and the learning rate."""

    def __init__(self, model_dir: str, run: KerasTraining):
        super().__init__()
        self._scalars, self._run = summaries.Scalars(os.path.join(model_dir, 'train')), run

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._rate = self._run.rate()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        values = {f'epoch_{name}': value for name, value in logs.items() if name != 'step_loss'}
        self._scalars.write(epoch, {**values, 'epoch_learning_rate': self._rate})

    def close(self) -> None:
        self._scalars.close()
