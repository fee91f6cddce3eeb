"""What keras_fit and custom_loop have in common: the model, its checkpoints, its epochs and its data."""

import concurrent.futures
import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType

import numpy as np
import tensorflow as tf

from estimator_trainer.compat.agreement import EagerAgreement
from estimator_trainer.compat.patches import optimizer_parts, strategy_mends
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import keras_models, losses, optimizers
from estimator_trainer.run_dir import checkpoints, summaries, training_file
from estimator_trainer.training import (
    dues,
    failures,
    from_memory,
    layer_precision,
    loop,
    loss_scaling,
    replica_effects,
    reports,
)
from estimator_trainer.training.trainer import Setup

_log = logging.getLogger('estimator_trainer')
CHECKPOINT_NAME = 'model.ckpt'


class KerasTraining:
    """The training of one task, from its checkpoint to its last step.

        with KerasTraining(setup, saved) as run:
            stops = run.begins.stop
            while not stops:
                stops = run.follow(setup.loop.after(...))

    Args:
        setup: trainer.Setup.
        saved: (step) -> None, called on the chief when it has saved a checkpoint.

    Attributes:
        parts: of the job.
        model, optimizer: made in the strategy's scope, and restored.
        loss_scale: of float16; None otherwise.
        begins: loop.AfterCall, whether there is anything to train.
    """

    def __init__(self, setup: Setup, saved: Callable[[int], object]):
        plan, config, job, params = setup.plan, setup.plan.config, setup.job, setup.params
        assert job.make_model and job.parts  # --loop is refused for other jobs
        self.parts = layer_precision.loss_in_float32(job.parts) if config.mixed_precision else job.parts
        tf.keras.utils.set_random_seed(config.seed)
        self.strategy = setup.run_configs.own.train_distribute or tf.distribute.get_strategy()
        self._setup, self._plan, self._params, self._loop = setup, plan, params, setup.loop
        self._saved, self._is_under_way = saved, False
        self._batches: tf.data.Dataset | None = None
        self._saves = dues.Saves(dues.save_rule(config), params)
        with self.strategy.scope():
            with layer_precision.of_layers(config.mixed_precision):
                self.model = keras_models.made(job.make_model, params.as_dict())
            self.optimizer = optimizers.of_job(self.parts, params.as_dict())
            numbers = optimizer_parts.numbers(self.optimizer)
            optimizer_parts.create_variables(self.optimizer, self._weights_of_model())  # all are restored
            self.loss_scale = loss_scaling.of_run(config.mixed_precision, self.model)
            keras_models.check_trained(self.model, is_scaled=self.loss_scale is not None)
            self._agreement = None if plan.trains_alone else EagerAgreement(loop.WISHES, plan.is_chief)
        states = keras_models.rnn_states(self.model)
        self._checkpoint = tf.train.Checkpoint(
            model=self.model,
            optimizer=self.optimizer,
            global_step=self.optimizer.iterations,
            **({'rnn_states': states} if states else {}),
        )
        self._restore(config.model_dir)
        with self.strategy.scope():
            optimizer_parts.set_numbers(self.optimizer, numbers)  # the checkpoint may have those of other params
        if self.loss_scale:
            self._checkpoint.loss_scale = self.loss_scale.state  # it is restored if the checkpoint has it
        self._manager = self._writer = None
        if plan.is_chief:
            self._manager = tf.train.CheckpointManager(
                self._checkpoint,
                config.model_dir,
                max_to_keep=config.keep_checkpoints or None,
                checkpoint_name=CHECKPOINT_NAME,
            )
            self._writer = summaries.Scalars(config.model_dir)

    def _weights_of_model(self) -> list[tf.Variable]:
        try:
            return self.model.trainable_variables
        except ValueError as error:
            raise UsageError(
                f'--loop={self._plan.config.loop}: make_model gives a model that has no weights yet; give its first '
                'layer a shape (tf.keras.Input), or let make_model call model.build.'
            ) from error

    def _restore(self, model_dir: str) -> None:
        # All tasks have agreed on the checkpoint to start from, which may be of step 0, such as one of `migrate`.
        # None can save before all have restored: the first save comes after a meeting (`__enter__`).
        checkpoint = checkpoints.latest(model_dir)
        self._is_new = checkpoint is None
        if checkpoint is None:
            return  # Loop.begin refuses what should have been restored
        if not checkpoints.is_of_objects(checkpoint):
            raise UsageError(
                f"--model_dir={model_dir}: {os.path.basename(checkpoint)} is an Estimator's "
                'checkpoint; python -m estimator_trainer migrate makes a Keras one of it.'
            )
        # The checkpoint of another precision may lack a loss scale, or have one that is not needed.
        try:
            self._checkpoint.restore(checkpoint).assert_existing_objects_matched().expect_partial()
        except AssertionError as error:
            missing = str(error).splitlines()[0].rstrip('.')
            raise UsageError(
                f'--model_dir={model_dir}: {os.path.basename(checkpoint)} does not hold all that the job trains now: '
                f'{missing}. Let make_model and make_optimizer give what they gave, with a learning '
                'rate that is a number where it was one; or name another --model_dir.'
            ) from error

    def __enter__(self) -> 'KerasTraining':
        step = self.read_step()
        self._next_summary = dues.every(step, self._plan.config.save_summary_steps)
        self._overflows = None
        if self.loss_scale and self._plan.is_chief:
            progress = dues.every(step, self._plan.config.log_every_steps)
            self._overflows = loss_scaling.OverflowLines(self.loss_scale, progress)
        reported = None
        if self._plan.is_chief:
            reported = reports.Reports(self._setup, self)
            replica_effects.say_batch_normalization((variable.name for variable in self.model.variables), self._plan)
            self._loop.not_finite = {name for name, is_finite in self._weights() if not is_finite}
        self.begins = self._loop.begin(step, self._saves, self, reported)
        if self._is_new:
            self.save(step)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """After the last step, in every task; or where the input of the next step has failed (see failures.py)."""
        of_the_data, step = None, self._loop.step
        if error is not None:
            of_the_data = failures.of_the_data(error)
            if not (self._plan.trains_alone and (of_the_data or failures.ends_training(error, self._setup.watchdog))):
                return False
            step = self.read_step()  # the call may have taken some of its steps
        self._loop.ends(training_file.END_OF_DATA, step, step - self._loop.step)  # if nothing else has ended it
        if step > self._loop.saved_step:
            self.save(step)
        if self._overflows:
            self._overflows.after(step, is_over=True)
        self._loop.finish()
        if self._writer:
            self._writer.close()
        return error is not None and not of_the_data

    def batches(self) -> tf.distribute.DistributedDataset:
        """The distributed data set of the training, from the next step on."""
        params = dataclasses.replace(self._params, start_step=self._loop.step).as_dict()
        setup = self._setup

        def of_pipeline(context: tf.distribute.InputContext) -> tf.data.Dataset:
            self._batches = setup.input_fn(tf.estimator.ModeKeys.TRAIN, params, context, setup.run_configs.own)
            keras_models.check_pairs(self._batches.element_spec, f'--loop={self._plan.config.loop}')
            return self._batches

        return self.strategy.distribute_datasets_from_function(of_pipeline)

    @property
    def next_drops_batches(self) -> bool:
        """Whether `next` of an iterator over `batches` may leave out the last ones: where they have a fixed size, it
        ends as soon as there are not enough for all replicas. get_next_as_optional gives them."""
        assert self._batches is not None
        return self.strategy.num_replicas_in_sync > 1 and self._batches.cardinality() != tf.data.INFINITE_CARDINALITY

    def taken(self) -> from_memory.Iterator | None:
        """What gives the batches of `batches` in place of an iterator over them; None: nothing does."""
        carried = from_memory.usable(self._batches, self._plan)
        return from_memory.Iterator(carried, self.strategy) if carried else None

    def read_step(self) -> int:
        """The global step, which the optimizer counts. One that scales the loss does not count each batch."""
        return int(self.optimizer.iterations.numpy())

    # -- trainer.Training

    def agree(self, wishes: Callable[[], list[bool]], steps: int) -> list[bool] | None:
        return self._agreement.agree(wishes, steps) if self._agreement else wishes()

    def next_due(self, step: int) -> int | None:
        steps = (self._end_of_epoch_after(step), self._next_summary(step))
        return min((each for each in steps if each is not None), default=None)

    def write_rate(self, step: int, examples_per_sec: float) -> None:
        assert self._writer
        self._writer.write(step, {'examples_per_sec': examples_per_sec})

    def write_step(self, step: int, loss: float) -> None:
        assert self._writer
        self._writer.write(step, {'loss': loss, 'learning_rate': self.rate(step - 1)})

    # -- epochs and steps

    @property
    def epoch(self) -> int:
        """Epochs that have been trained."""
        return self._params.epochs_at(self._loop.step)

    @property
    def is_at_end_of_epoch(self) -> bool:
        return self._params.end_of_epoch(self.epoch) == self._loop.step

    def _end_of_epoch_after(self, step: int) -> int:
        return self._params.end_of_epoch(self._params.epochs_at(step) + 1)

    def steps_of_epoch(self) -> int:
        """Steps that are left of this epoch, at least 1."""
        step = self._loop.step
        return max(1, min(self._params.max_steps, self._end_of_epoch_after(step)) - step)

    def rate(self, step: int | None = None) -> float:
        """The learning rate of a step that follows `step` others; by default of the next one."""
        done = self._loop.step if step is None else step
        rate = float(optimizers.rate_at(self.optimizer, tf.constant(done, tf.int64)))
        return rate / (1 + optimizer_parts.decay(self.optimizer) * done)

    def say_epoch(self, first: int, rate: float, results: Mapping[str, float]) -> None:
        """Logs an epoch, or the part of one that was trained, from step `first` on."""
        step = self._loop.step
        if self._plan.is_chief and step > first:
            words = ', '.join(f'{name} {float(value):.4f}' for name, value in results.items())
            number = self.epoch if self.is_at_end_of_epoch else self.epoch + 1
            _log.info('epoch %d, steps %d to %d: %s, learning rate %.3g', number, first, step, words, rate)

    # -- checkpoints

    def follow(self, after: loop.AfterCall) -> bool:
        """Saves if a checkpoint is due after a call. Returns whether training stops."""
        if self._plan.is_chief and not self._is_under_way:
            losses.warn_of_unused(self.model, self.parts)  # what a layer adds is known once it was called
        self._is_under_way = True
        if self._overflows:
            self._overflows.after(self._loop.step)
        if after.save:
            self.save(self._loop.step)
        return after.stop or (after.save and self._loop.stops_here())

    def save(self, step: int) -> None:
        """Every task: what is averaged over the replicas as it is saved, such as the averages of a
        BatchNormalization, needs all of them."""
        of_metrics = [variable for metric in self.model.metrics for variable in metric.variables]  # of layers too
        with strategy_mends.averages_read_beforehand(
            {id(each): each for each in (*self.model.variables, *of_metrics)}.values()
        ):
            if self._manager is None:  # the chief's
                return
            self._loop.saves(step, self._weights())
            self._manager.save(checkpoint_number=step)
        self._loop.saved(step)
        self._tell_saved(step)

    def _weights(self) -> Iterator[tuple[str, bool]]:
        """(name, whether all of it is finite), of each weight."""
        for weight in self.model.trainable_variables:
            yield weight.name, bool(np.all(np.isfinite(weight.numpy())))

    def _tell_saved(self, step: int) -> None:
        """`fit` saves within the scope of the training's strategy, where no other strategy can evaluate; the
        scope is the thread's."""
        if not tf.distribute.has_strategy():
            self._saved(step)
            return
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            thread.submit(self._saved, step).result()
