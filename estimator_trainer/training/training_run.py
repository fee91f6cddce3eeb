"""What keras_fit and custom_loop do around their steps: checkpoints, reports, and when to stop."""

import concurrent.futures
import dataclasses
import logging
import os
import time

import numpy as np
import tensorflow as tf

from estimator_trainer import log
from estimator_trainer.compat.patches import optimizer_settings, replica_averages
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import checkpoints, metrics_log, summaries
from estimator_trainer.sync.agreement import EagerAgreement
from estimator_trainer.training import broken_input, progress
from estimator_trainer.training.watched_step import NotFiniteError

_log = logging.getLogger('estimator_trainer')
CHECKPOINT_NAME = 'model.ckpt'
_SAVE_SECS = 600


class TrainingRun:
    """The training of one task, from its checkpoint to its last step.

    A trainer trains some steps and says so (`stepped`), again and again, while `goes_on`:

        with TrainingRun(setup, saved) as run:
            while run.goes_on:
                run.stepped(train_some_steps(run.model, run.optimizer))

    Args:
        setup: trainer.Setup.
        saved: (step) -> None, called on the chief when it has saved a checkpoint.
        default_save_epochs: epochs between checkpoints where no flag says it; None: not by epochs.

    Attributes:
        step: the global step. Epoch e ends at step `end_of_epoch(e)`.
        goes_on: whether there is anything left to train.
        model, optimizer: made in the strategy's scope, and restored.
        waits: is told how long the steps have waited.
    """

    def __init__(self, setup, saved, default_save_epochs=None):
        plan, config, job, params = setup.plan, setup.plan.config, setup.job, setup.params
        tf.keras.utils.set_random_seed(config.seed)
        self.strategy = setup.run_configs.own.train_distribute or tf.distribute.get_strategy()
        self._plan, self._lifeline, self._params = plan, setup.lifeline, params
        self._watch, self._saved, self._input_fn = setup.watch, saved, setup.input_fn
        self._run_config = setup.run_configs.own
        self.waits = setup.waits
        by_steps_or_epochs = config.save_checkpoints_steps or config.save_checkpoints_epochs
        self._save_secs = config.save_checkpoints_secs or (None if by_steps_or_epochs else _SAVE_SECS)
        self._save_steps = config.save_checkpoints_steps
        self._save_epochs = config.save_checkpoints_epochs or default_save_epochs
        with self.strategy.scope():
            self.model = job.make_model(params.as_dict())
            self.optimizer = job.parts.make_optimizer(params.as_dict())
            optimizer_settings.create_variables(self.optimizer, self.model.trainable_variables)  # all are restored
            self._agreement = EagerAgreement(self._watch.WISHES + 1, plan.is_chief)
        self._checkpoint = tf.train.Checkpoint(
            model=self.model, optimizer=self.optimizer, global_step=self.optimizer.iterations
        )
        self._restore(config.model_dir)
        self._count_steps()
        self._saved_step = self._first = self.step
        self._saved_at = time.monotonic()
        self._manager = self._writer = self._progress = None
        if plan.is_chief:
            self._manager = tf.train.CheckpointManager(
                self._checkpoint,
                config.model_dir,
                max_to_keep=config.keep_checkpoints or None,
                checkpoint_name=CHECKPOINT_NAME,
            )
            self._writer = summaries.Scalars(config.model_dir)
            self._progress = progress.Progress(
                max_steps=params.max_steps,
                batch_size=plan.global_batch_size,
                every_steps=config.log_every_steps,
                metrics=metrics_log.MetricsLog(os.path.join(config.model_dir, 'metrics.jsonl')),
                bar=log.wants_bar(config.progress),
                heard=self._lifeline.heard_rate,
                counts=setup.counts,
                summary=lambda step, rate: self._writer.write(step, {'examples_per_sec': rate}),
            )

    def _restore(self, model_dir) -> None:
        # All tasks have agreed on the checkpoint to start from, which may be of step 0, such as one of `migrate`.
        # None can save before all have restored: the first save comes after a meeting (`__enter__`).
        checkpoint = checkpoints.latest(model_dir)
        self._begins = checkpoint is None
        if checkpoint is None:
            return  # StepWatch.start refuses what should have been restored
        if not checkpoints.is_of_objects(checkpoint):
            raise UsageError(
                f"--model_dir={model_dir}: {os.path.basename(checkpoint)} is an Estimator's "
                'checkpoint; python -m estimator_trainer migrate makes a Keras one of it.'
            )
        status = self._checkpoint.restore(checkpoint)
        status.assert_existing_objects_matched()

    def __enter__(self):
        self._watch.start(self.step)
        if self._progress:
            self._progress.start(self.step)
        stop = self._agrees_to_stop()  # what ended the last run may still stand
        if self._begins:
            self._save()
        self.goes_on = not stop and self.step < self._params.max_steps
        return self

    def __exit__(self, kind, error, traceback) -> bool:
        """After the last step, in every task; or where the input of the next step has failed (see broken_input)."""
        of_the_data = None
        if error is not None:
            of_the_data = broken_input.of_the_data(error)
            if not (self._plan.trains_alone and (of_the_data or broken_input.ends_training(error, self._lifeline))):
                return False
            self._count_steps()
        if self.step > self._saved_step:
            self._save()
        if self._progress:
            self._progress.finish(self.step)
            self._writer.close()
        self._watch.finish()
        return error is not None and not of_the_data

    def batches(self):
        """The distributed data set of the training, from `step` on."""
        params = dataclasses.replace(self._params, start_step=self.step).as_dict()
        return self.strategy.distribute_datasets_from_function(
            lambda context: self._input_fn(tf.estimator.ModeKeys.TRAIN, params, context, self._run_config)
        )

    def begins_call(self) -> None:
        """A call of TensorFlow begins, which takes some steps."""
        self._watch.begins_call()

    def stepped(self, losses) -> None:
        """Some steps have been finished.

        Args:
            losses: of each of them, over the global batch.
        """
        self.step += len(losses)
        self._watch.stepped(self.step, [float(loss) for loss in losses])
        if self._progress:
            self._progress.stepped(losses, lambda: self.step)
        self._summarise(losses)
        stop = self._agreement.due(len(losses)) and self._agrees_to_stop()
        if self._is_to_be_saved():
            self._save()
        self.goes_on = not stop and self.step < self._params.max_steps

    def _count_steps(self) -> None:
        """After a call that has failed: it may have taken some steps."""
        self.step = int(self.optimizer.iterations.numpy())

    # -- epochs and steps

    def end_of_epoch(self, epoch: int) -> int:
        """The step at which `epoch` epochs have been trained, and maybe a part of the next one."""
        return self._params.end_of_epoch(epoch)

    @property
    def epoch(self) -> int:
        """Epochs that have been trained."""
        return self._params.epochs_at(self.step)

    @property
    def is_at_end_of_epoch(self) -> bool:
        return self.end_of_epoch(self.epoch) == self.step

    def steps_of_epoch(self) -> int:
        """Steps that are left of this epoch, at least 1."""
        return max(1, min(self._params.max_steps, self.end_of_epoch(self.epoch + 1)) - self.step)

    def steps_to_call(self) -> int:
        """Steps of the next call of a tf.function that takes several: until the epoch ends, or a checkpoint, progress
        or a summary is due, or a profile begins or ends. At least 1."""
        config = self._plan.config
        ends = [self.step + self.steps_of_epoch()]
        if self._save_steps:
            ends.append(self._saved_step + self._save_steps)
        ends += [
            _next(self.step, every, self._first)
            for every in (config.log_every_steps, config.save_summary_steps)
            if every
        ]
        profiled = self._watch.border_of_profile(self.step, self._plan.trains_alone)
        ends += [] if profiled is None else [profiled]
        wanted, most = max(1, min(ends) - self.step), config.most_steps_per_call
        return wanted if most is None else min(most, wanted)

    def rate(self, step: int | None = None) -> float:
        """The learning rate of a step that follows `step` others; by default of the next one."""
        rate = optimizer_settings.settings(self.optimizer)['learning_rate']
        done = self.step if step is None else step
        return float(tf.convert_to_tensor(rate(tf.constant(done, tf.int64)) if callable(rate) else rate))

    # -- saving and stopping

    def _agrees_to_stop(self) -> bool:
        due = bool(self._save_secs) and time.monotonic() - self._saved_at >= self._save_secs
        *wishes, self._save_now = self._agreement.meet([*self._watch.wishes(), self._plan.is_chief and due])
        return self._watch.obey(wishes)

    def _is_to_be_saved(self) -> bool:
        by_clock, self._save_now = self._save_now, False
        if by_clock or (self._save_steps and self.step >= self._saved_step + self._save_steps):
            return True
        return bool(self._save_epochs) and self.epoch % self._save_epochs == 0 and self.is_at_end_of_epoch

    _save_now = False

    def _save(self) -> None:
        """Every task: what is averaged over the replicas as it is saved, such as the averages of a
        BatchNormalization, needs all of them."""
        self._saved_step, self._saved_at = self.step, time.monotonic()
        with replica_averages.read_beforehand(self.model.variables):
            if not self._plan.is_chief:
                return
            for variable in self.model.trainable_variables:
                if not np.all(np.isfinite(variable.numpy())):
                    raise NotFiniteError(f'{variable.name} is not finite at step {self.step}')
            self._manager.save(checkpoint_number=self.step)
        self._lifeline.saved(self.step)
        self._tell_saved()

    def _tell_saved(self) -> None:
        """`fit` saves within the scope of the training's strategy, where no other strategy can evaluate; the
        scope is the thread's."""
        if not tf.distribute.has_strategy():
            self._saved(self.step)
            return
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            thread.submit(self._saved, self.step).result()

    # -- TensorBoard

    def _summarise(self, losses) -> None:
        every = self._plan.config.save_summary_steps
        if not every or not self._writer:
            return
        first = self.step - len(losses)
        for done, loss in enumerate(losses, first):  # steps before the one of this loss
            if (done + 1 - self._first) % every == 0:
                self._writer.write(done + 1, {'loss': loss, 'learning_rate': self.rate(done)})

    def say_epoch(self, first: int, rate: float, results) -> None:
        """Logs an epoch, or the part of one that was trained, from step `first` on."""
        if self._plan.is_chief and self.step > first:
            shown = ', '.join(f'{name} {float(value):.4f}' for name, value in results.items())
            number = self.epoch if self.is_at_end_of_epoch else self.epoch + 1
            _log.info('epoch %d, steps %d to %d: %s, learning rate %.3g', number, first, self.step, shown, rate)


def _next(step, every, first) -> int:
    return step + every - (step - first) % every
