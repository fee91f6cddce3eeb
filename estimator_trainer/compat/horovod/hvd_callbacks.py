"""Horovod's callbacks for Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_trainer.compat.horovod import distributed, packing, world
from estimator_trainer.compat.horovod.collectives import reduce_all

__all__ = [
    'BroadcastGlobalVariablesCallback',
    'LearningRateScheduleCallback',
    'LearningRateWarmupCallback',
    'MetricAverageCallback',
]


def _run(made: Any) -> Any:
    """Runs an operation where a session has to."""
    return made if tf.executing_eagerly() else tf.compat.v1.keras.backend.get_session().run(made)


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):
    """Gives model and optimizer the values of rank `root_rank`, after the first batch: the optimizer has its variables
    then."""

    def __init__(self, root_rank: int, device: str = '', local_variables: Any = None) -> None:
        super().__init__()
        self._root_rank, self._is_done = root_rank, False

    def on_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._is_done:
            return
        self._is_done = True
        variables = self.model.optimizer.variables
        variables = list(variables() if callable(variables) else variables)
        _run(distributed.broadcast_variables([*self.model.variables, *variables], self._root_rank))


class MetricAverageCallback(tf.keras.callbacks.Callback):
    """Averages the metrics of an epoch over all ranks, for the callbacks after it."""

    def __init__(self, device: str = '') -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not logs or world.place().size == 1:
            return
        names = sorted(logs)
        (averages,) = reduce_all([tf.constant([float(logs[name]) for name in names], tf.float64)], packing.AVERAGE)
        logs.update(zip(names, (float(value) for value in np.asarray(_run(averages)))))


class LearningRateScheduleCallback(tf.keras.callbacks.Callback):
    """Multiplies the learning rate between two epochs.

    Args:
        initial_lr: the rate that is multiplied.
        multiplier: a factor, or a function of the epoch.
        start_epoch, end_epoch: from where to where; the end is left out.
        staircase: the rate changes with each epoch, otherwise with each batch.
        momentum_correction: accepted, without effect where the optimizer has no variable momentum.
        steps_per_epoch: batches of an epoch, unless Keras knows.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        self._initial_lr, self._start, self._end = initial_lr, start_epoch, end_epoch
        self._multiplier = multiplier if callable(multiplier) else (lambda epoch: multiplier)
        self._by_epochs = staircase or not callable(multiplier)
        self._steps: Any = steps_per_epoch
        self._epoch = 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._steps = self._steps or self.params.get('steps')
        if not self._by_epochs and not self._steps:
            raise ValueError('give steps_per_epoch: Keras does not know how many batches an epoch has')

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch = epoch
        if self._by_epochs:
            self._set(epoch)

    def on_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if not self._by_epochs:
            self._set(self._epoch + float(batch) / self._steps)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            logs['lr'] = self._rate()

    def _set(self, epoch: float) -> None:
        if self._start <= epoch and (self._end is None or epoch < self._end):
            tf.keras.backend.set_value(self.model.optimizer.learning_rate, self._initial_lr * self._multiplier(epoch))

    def _rate(self) -> float:
        return float(tf.keras.backend.get_value(self.model.optimizer.learning_rate))


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from that of one rank to `initial_lr` within the first epochs.

    Args:
        initial_lr: the rate at the end, which is size() times that of one rank.
        warmup_epochs: how many epochs it takes.
        verbose: tell the rate when it is reached.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            epoch += 1.0 / self._steps  # at the end of a batch
            size = world.place().size
            return 1.0 / size * (epoch * (size - 1) / warmup_epochs + 1)

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self._told_after = warmup_epochs - 1 if verbose else None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if epoch == self._told_after and not world.place().rank:
            print(f'\nEpoch {epoch + 1}: finished gradual learning rate warmup to {self._rate():g}.')
