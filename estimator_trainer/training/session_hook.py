"""The training session of an Estimator: what is done round each of its calls, and when it saves a checkpoint."""

import logging

import numpy as np
import tensorflow as tf

from estimator_trainer.compat import agreement
from estimator_trainer.compat.patches import saver_hooks
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import warm_start
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.training import dues, waits
from estimator_trainer.training import loop as loops
from estimator_trainer.training.reports import Reports

_log = logging.getLogger('estimator_trainer')
v1 = tf.compat.v1
_COMPARED_STEPS = 1024  # the tasks compare their global steps modulo this number, which a float32 can sum up


class SessionHook(tf.estimator.SessionRunHook):
    """Brings a Loop into a session, and does what it says; a loop.Training.

    Args:
        setup: trainer.Setup.
        rule: dues.SaveRule.
        step_after: of `sync_training.step_after`, for one call.
        calls: calls.Calls; None: each call takes one step.
        reads: step_batches.BatchReads; None: only steps read batches.

    Attributes:
        saver: saver_hooks.CheckpointSaver of a task that takes part in checkpoints; None: another hook saves.
    """

    def __init__(self, setup, rule, step_after, calls=None, reads=None):
        self._setup, self._plan, self._loop, self._calls = setup, setup.plan, setup.loop, calls
        self._reads, self._saves, self._step_after = reads, dues.Saves(rule), step_after
        self._in_call = self._listener_stopped = False
        self.saver = None

    def listener_stops(self) -> None:
        """A listener of the job has asked to stop training."""
        self._listener_stopped = True

    def batches_beside(self, session) -> float:
        """How many batches this process has read, but not to train on them. A step reads one, in its parts if it
        accumulates.

        A call that has failed has asked for one more, which the next run reads again. If a hook failed before it, the
        call has asked for none.
        """
        if self._reads is None:
            return 0
        count = self._plan.config.accumulate_steps
        return max(0, self._reads.number(session) / count - self._loop.batches - self._in_call)

    def begin(self):
        self._global_step = v1.train.get_global_step()
        losses = self._calls.losses if self._calls else v1.get_collection(v1.GraphKeys.LOSSES)[-1:]  # Estimator's
        self._fetches = [losses, waits.of_call(), self._step_after]
        participant = agreement.join(self._wishes, loops.WISHES + 1 + bool(self._calls))
        self._participant = None if agreement.in_step() is None else participant  # there are other tasks
        if self.saver:
            self.saver.begin()
        if self._plan.is_chief and not RunFolder(self._plan.config.model_dir).has_checkpoint:
            sentence = warm_start.sentence()
            if sentence:
                _log.info('%s', sentence)

    def after_create_session(self, session, coord):
        self._session, self._heard, reported = session, None, None
        if self._plan.is_chief:
            self._write_rate = saver_hooks.scalar_writer(self._plan.config.model_dir, 'examples_per_sec')
            reported = Reports(self._setup, self)
        after = self._loop.begin(self.read_step(), self._saves, self, reported)
        if after.stop:
            coord.request_stop()
        if self._calls:
            self._calls.start(session)
        if self.saver:
            self.saver.after_create_session(session, coord)

    def before_run(self, run_context):
        self._in_call = True
        self._loop.begins_call()
        length = self._calls.begin() if self._calls else {}
        fetches, feeds = self._participant.before_run() if self._participant else ([], None)
        return tf.estimator.SessionRunArgs([self._fetches, fetches], {**length, **(feeds or {})})

    def after_run(self, run_context, run_values):
        (losses, waited, step), self._heard = run_values.results
        self._in_call, step = False, int(step)
        if self._calls:
            self._calls.took(len(losses), step)
        for secs in waited:
            self._setup.waits.for_input(secs)
        after = self._loop.after(step, losses)
        if after.save and self.saver:
            self.saver.save(run_context.session, self.read_step() if self._plan.asynchronous else step)
        if self._calls:
            self._calls.plan_next(self._participant)
        if after.stop or (after.save and self._loop.stops_here()):
            run_context.request_stop()

    def end(self, session):
        # The data have ended in the middle of a call: Loop has not been told of it. A hook asks to stop after a call.
        stopped_by = loops.LISTENER if self._listener_stopped else loops.HOOK
        self._loop.ends(loops.END_OF_DATA if self._in_call else stopped_by, int(session.run(self._global_step)))
        if self.saver:
            self.saver.end(session)
        self._loop.finish()
        if self._calls:
            self._calls.stop()

    # -- loop.Training

    def agree(self, wishes, steps: int) -> list:
        """Before the first step the tasks ask each other; later they have heard it with the losses."""
        if self._participant is None:
            return wishes()
        if self._heard is None:
            return self._participant.meet(self._session, [*wishes(), 0, *([0] if self._calls else [])])[: loops.WISHES]
        agreed = self._participant.after_run(self._heard)
        if self._participant.numbers()[loops.WISHES] != self._compared_step * self._plan.num_training_tasks:
            raise UsageError(
                f'the tasks count the global step differently: at step {self._loop.step} of this task another one has '
                'counted another number of steps; let the train_op move it by the same number in all of them.'
            )
        return agreed[: loops.WISHES]

    def next_due(self, step: int) -> int | None:
        return self._calls.next_summary(step) if self._calls else None

    def read_step(self) -> int:
        return int(self._session.run(self._global_step))

    def write_rate(self, step: int, examples_per_sec: float) -> None:
        self._write_rate(step, examples_per_sec)

    def write_step(self, step: int, loss: float) -> None:
        """Hooks write the summaries of a session."""

    def _wishes(self) -> list:
        self._compared_step = self._loop.step % _COMPARED_STEPS
        return [*self._loop.wishes(), self._compared_step, *([self._calls.next_length()] if self._calls else [])]


class SavedListener(tf.estimator.CheckpointSaverListener):
    """Lets no weight that is not finite into a checkpoint, and tells of each.

    Args:
        loop: loop.Loop.
        saved: (step) -> None, is told of each but the first, which holds what training began with.
        batches_beside: of SessionHook.
    """

    def __init__(self, loop, saved, batches_beside):
        self._loop, self._saved, self._batches_beside, self._began = loop, saved, batches_beside, False

    def begin(self):
        self._finite = {
            variable.op.name: tf.reduce_all(tf.math.is_finite(variable))
            for variable in v1.trainable_variables()
            if variable.dtype.base_dtype.is_floating
        }

    def before_save(self, session, global_step_value):
        finite = session.run(self._finite)
        weights = [(name, bool(np.all(finite[name]))) for name in sorted(finite)]
        self._loop.saves(int(global_step_value), weights, self._batches_beside(session))

    def after_save(self, session, global_step_value):
        self._loop.saved(int(global_step_value))
        if self._began:
            self._saved(int(global_step_value))
        self._began = True
