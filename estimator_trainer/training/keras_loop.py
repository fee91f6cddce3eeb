"""What keras_fit and custom_loop have in common: both train a job's Keras model."""

import concurrent.futures
import dataclasses

import tensorflow as tf

from estimator_trainer.evaluation import keras_evaluator
from estimator_trainer.jobs import losses
from estimator_trainer.training import broken_input, task, training_run

_SAVE_SECS = 600


class KerasLoop(task.Loop):
    """One task's part of a run whose loop fills in `_train_steps`."""

    _default_save_epochs = None

    def _train_steps(self, run) -> None:
        """Trains from run.step on, until `run.stepped` says to stop or the data end."""
        raise NotImplementedError

    def _train(self) -> None:
        config = self._plan.config
        by_steps_or_epochs = config.save_checkpoints_steps or config.save_checkpoints_epochs
        tf.keras.utils.set_random_seed(config.seed)
        run = training_run.TrainingRun(
            self._plan,
            self._lifeline,
            self._job,
            self._params,
            self.strategy,
            self._step_watch,
            self._metrics,
            self._saved,
            save_secs=config.save_checkpoints_secs or (None if by_steps_or_epochs else _SAVE_SECS),
            save_steps=config.save_checkpoints_steps,
            save_epochs=config.save_checkpoints_epochs or self._default_save_epochs,
        )
        if run.start():
            try:
                self._train_steps(run)
            except Exception as error:
                if not (self._plan.trains_alone and broken_input.ends_training(error, self._lifeline)):
                    raise
                run.count_steps()
        run.finish()

    @property
    def strategy(self):
        """Of the training; None without."""
        return self._run_configs.own.train_distribute

    def _batches(self, run):
        """The distributed data set of the training, from run.step on."""
        params = dataclasses.replace(self._params, start_step=run.step).as_dict()
        return run.strategy.distribute_datasets_from_function(
            lambda context: self._input_fn(tf.estimator.ModeKeys.TRAIN, params, context)
        )

    def _make_evaluator(self):
        strategy = self._run_configs.local.eval_distribute
        if strategy and self._plan.strategy == 'mirrored' and self.strategy:
            strategy = self.strategy  # the collectives of a second one would get in its way
        return keras_evaluator.KerasEvaluator(
            self._job,
            self._params.as_dict(),
            self._plan.config.model_dir,
            self._eval_input_fn(),
            self._plan.config.eval_steps,
            strategy,
            self._evaluating_now,
        )

    def _saved(self, step) -> None:
        """As in Loop. `fit` calls this within the scope of the training's strategy, where no other strategy
        can evaluate; the scope is the thread's."""
        if not tf.distribute.has_strategy():
            super()._saved(step)
            return
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            thread.submit(super()._saved, step).result()


def loss_of(model, parts, params, features, labels):
    """One replica's part of a training step.

    Returns:
        (the losses of its examples [batch, ...], its share of the global batch's loss, the outputs)
    """
    outputs = losses.outputs_of(model, features, training=True)
    of_examples = parts.loss(labels, outputs, params)
    penalty = parts.penalty(model, params) if parts.penalty else None
    return of_examples, losses.share(of_examples, penalty), outputs
