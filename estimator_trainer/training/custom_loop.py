"""Trains a Keras model with a loop of our own: strategy.run, a tape, and three ways of stepping."""

import time

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import config as tensorflow_config

from estimator_trainer.jobs import losses
from estimator_trainer.training.training_run import TrainingRun

_AGREE_EVERY_SECS = 0.5
STEPPING = ('dataset', 'iterator', 'epoch_function')


class CustomLoopTrainer:
    """A trainer.Trainer. `--stepping` says what happens outside the graph:

    - dataset: Python goes over the distributed data set, each step is one call of a tf.function;
    - iterator: a tf.function takes several steps from an iterator, up to the next one that is reported
      or saved, and for half a second at most: then the tasks agree on what to do;
    - epoch_function: one tf.function trains what is left of the epoch. A signal is obeyed after it.
    """

    evaluates_first_checkpoint = False

    def __init__(self, setup):
        self._setup = setup

    def train(self, saved) -> None:
        with TrainingRun(self._setup, saved) as run:
            if not run.goes_on:
                return
            setup, batches = self._setup, run.batches()
            params = setup.params.as_dict()
            steps = Steps(run.strategy, run.model, run.optimizer, setup.job.parts, params, batches.element_spec)
            if setup.plan.config.stepping == 'dataset':
                losses_of_calls = ([steps.one(batch)] for batch in batches)
            else:
                losses_of_calls = self._several(run, steps, iter(batches))
            first, rate = run.step, run.rate()
            for step_losses in losses_of_calls:
                run.stepped(np.asarray(step_losses))
                if not run.goes_on or run.is_at_end_of_epoch:
                    run.say_epoch(first, rate, steps.results())
                    first, rate = run.step, run.rate()
                if not run.goes_on:
                    break

    def _several(self, run, steps, iterator):
        whole_epochs = self._setup.plan.config.stepping == 'epoch_function'
        while True:
            wanted = run.steps_to(report=not whole_epochs)
            done, ended = steps.several(
                iterator, tf.constant(wanted), float('inf') if whole_epochs else _AGREE_EVERY_SECS
            )
            if len(done):
                yield done.numpy()
            if ended:
                return


def _now():
    """Seconds by some clock. TensorFlow's own may not be read where its operations have to be deterministic."""
    if tensorflow_config.is_op_determinism_enabled():
        return tf.ensure_shape(tf.numpy_function(time.monotonic, [], tf.float64), [])
    return tf.timestamp()


class Steps:
    """Training steps of a model under a strategy.

    Metrics are of single examples, since `results` was last asked for.

    Args:
        spec: element_spec of the distributed data set.

    Attributes:
        one: (batch) -> the loss over the global batch of one training step, a tf.function. Its
            signature says which batches may be short (`losses.global_examples`).
    """

    def __init__(self, strategy, model, optimizer, parts, params, spec):
        self._strategy, self._model, self._optimizer = strategy, model, optimizer
        self._parts, self._params = parts, dict(params)
        with strategy.scope():
            self._metrics = {'loss': tf.keras.metrics.Mean(name='loss')}
            self._metrics.update(parts.metrics(dict(params)) if parts.metrics else {})
        self.one = tf.function(self._step, input_signature=[spec])

    def results(self) -> dict:
        """The metrics so far, which begin anew. Every task has to ask at the same step."""
        results = {name: metric.result().numpy() for name, metric in self._metrics.items()}
        for metric in self._metrics.values():
            metric.reset_state()
        return results

    @tf.function(reduce_retracing=True)
    def several(self, iterator, count, secs):
        """Trains `count` steps; fewer where the data end, or where they have taken `secs` by the clock of
        the chief: it is told in the reduction of the loss, so that all tasks take the same steps.

        Returns:
            (the loss of each step, whether the data have ended)
        """
        of_steps = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        began, ended = _now(), False
        for number in tf.range(count):
            batch = iterator.get_next_as_optional()
            if not batch.has_value():
                ended = True
                break
            shares = self._strategy.run(self.replica_step, batch.get_value())
            loss, passed = tf.unstack(
                self._strategy.reduce(
                    tf.distribute.ReduceOp.SUM,
                    self._strategy.run(lambda share: self._with_time(share, began), (shares,)),
                    axis=None,
                )
            )
            of_steps = of_steps.write(number, loss)
            if passed >= secs:
                break
        return of_steps.stack(), ended

    def _with_time(self, share, began):
        """A replica's share of the loss, and of the first replica the seconds since `began`."""
        with tf.control_dependencies([share]), tf.device('/cpu:0'):
            passed = tf.cast(_now() - began, tf.float32)
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.stack([tf.cast(share, tf.float32), tf.where(tf.equal(replica, 0), passed, 0.0)])

    def _step(self, batch):
        shares = self._strategy.run(self.replica_step, batch)
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, shares, axis=None)

    def replica_step(self, features, labels):
        """One replica's part of a step. Returns its share of the loss."""
        with tf.GradientTape() as tape:
            of_examples, share, outputs = losses.of_step(self._model, self._parts, self._params, features, labels)
        variables = self._model.trainable_variables
        self._optimizer.apply_gradients(zip(tape.gradient(share, variables), variables))
        for name, metric in self._metrics.items():
            if name == 'loss':
                metric.update_state(losses.of_examples(of_examples))
            else:
                metric.update_state(labels, outputs)
        return share
