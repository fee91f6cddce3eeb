"""The training session of an Estimator: what is done round each of its calls, how many steps each of them takes, and
when it saves a checkpoint."""

import logging
from collections.abc import Callable

import tensorflow as tf

from estimator_trainer import exit_codes
from estimator_trainer.compat import agreement
from estimator_trainer.compat.patches import saver_hooks
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import warm_start
from estimator_trainer.run_dir import training_file
from estimator_trainer.training import agreed_start, dues, files_of_chief
from estimator_trainer.training import loop as loops
from estimator_trainer.training.batch_reads import BatchReads
from estimator_trainer.training.call_timer import CallTimer
from estimator_trainer.training.from_memory import InGraph
from estimator_trainer.training.reports import Reports
from estimator_trainer.training.step_loop import StepLoop
from estimator_trainer.training.trainer import Setup

_log = logging.getLogger('estimator_trainer')
v1 = tf.compat.v1
# Steps of a call of several workers, whose calls end together: ten slow steps have to fit into the grace period.
_MOST_IN_STEP = 10
_COMPARED_STEPS = 1024  # the tasks compare their global steps modulo this number, which a float32 can sum up


class SessionHook(tf.estimator.SessionRunHook):
    """Brings a Loop into a session, and does what it says; a trainer.Training.

    Args:
        step_after: of `sync_training.step_after`, for one call.
        wait: how long a step has waited for its batch, or the steps of a call; None: it is not measured.
        calls: None: each call takes one step.
        reads: None: only steps read batches.
        taken: None: an iterator of tf.data gives the batches.

    Attributes:
        saver: of a task that takes part in checkpoints; None: another hook saves.
    """

    def __init__(
        self,
        setup: Setup,
        rule: dues.SaveRule,
        step_after: tf.Tensor,
        wait: tf.Tensor | None = None,
        calls: 'Calls | None' = None,
        reads: BatchReads | None = None,
        taken: InGraph | None = None,
    ):
        self._setup, self._plan, self._loop, self._calls = setup, setup.plan, setup.loop, calls
        self._reads, self._saves, self._step_after, self._taken = reads, dues.Saves(rule), step_after, taken
        self._waits = [] if wait is None else [tf.reduce_sum(wait)]
        self._in_call = self._listener_stopped = False
        self.saver: saver_hooks.CheckpointSaver | None = None
        self._reports: Reports | None = None  # of the chief

    def listener_stops(self) -> None:
        """A listener of the job has asked to stop training."""
        self._listener_stopped = True

    def batches_beside(self, session: tf.compat.v1.Session) -> float:
        """How many batches this process has read, but not to train on them. A step reads one, in its parts if it
        accumulates.

        A call that has failed has asked for one more, which the next run reads again. If a hook failed before it, the
        call has asked for none.
        """
        if self._reads is None:
            return 0
        count = self._plan.config.accumulate_steps
        return max(0, self._reads.number(session) / count - self._loop.batches - self._in_call)

    def begin(self) -> None:
        self._global_step = v1.train.get_global_step()
        losses = self._calls.losses if self._calls else v1.get_collection(v1.GraphKeys.LOSSES)[-1:]  # Estimator's
        self._fetches = [losses, self._waits, self._step_after]
        participant = agreement.join(self._wishes, loops.WISHES + 1 + bool(self._calls))
        self._participant = None if agreement.in_step() is None else participant  # there are other tasks
        if self.saver:
            self.saver.begin()
        if self._plan.is_chief:
            restored = tf.train.latest_checkpoint(self._plan.config.model_dir)
            sentence = warm_start.left_behind(restored) if restored else warm_start.sentence()
            if sentence:
                _log.info('%s', sentence)

    def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
        self._session, self._heard = session, None
        if self._plan.uses_parameter_servers and not self._plan.is_chief:
            self._compare_files()  # the chief has made the variables, so its config.json is there
        if self._taken:
            self._taken.start(session)
        if self._plan.is_chief:
            self._write_rate = saver_hooks.scalar_writer(self._plan.config.model_dir, 'examples_per_sec')
            self._reports = Reports(self._setup, self)
        after = self._loop.begin(self.read_step(), self._saves, self, self._reports)
        if after.stop:
            coord.request_stop()
        if self._calls:
            self._calls.start(session)
        if self.saver:
            self.saver.after_create_session(session, coord)

    def _compare_files(self) -> None:
        dataset, config = self._setup.dataset, self._plan.config
        own = dataset.contents if dataset else None
        if problem := files_of_chief.look(config.model_dir, own, config.join_timeout_secs):
            raise agreed_start.StartRefused(exit_codes.FILES_AWAY, f'{self._plan.name} {problem}')

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> tf.compat.v1.train.SessionRunArgs:
        if self._plan.trains_alone and not self._loop.batches:
            self._follow_restored_step()
        self._in_call = True
        self._loop.begins_call()
        length = self._calls.begin() if self._calls else {}
        fetches, feeds = self._participant.before_run() if self._participant else ([], None)
        return tf.estimator.SessionRunArgs([self._fetches, fetches], {**length, **(feeds or {})})

    def _follow_restored_step(self) -> None:
        """A hook of the job comes after this one, and may have restored the global step once the session was there."""
        step = self.read_step()
        if step != self._loop.step:
            self._loop.step = step
            if self._reports:
                self._reports.start(step)
            if self._calls:
                self._calls.begins_after(step)

    def after_run(
        self, run_context: tf.compat.v1.train.SessionRunContext, run_values: tf.compat.v1.train.SessionRunValues
    ) -> None:
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

    def end(self, session: tf.compat.v1.Session) -> None:
        # The data have ended in the middle of a call: Loop has not been told of it. A hook asks to stop after a call.
        stopped_by = training_file.LISTENER if self._listener_stopped else training_file.HOOK
        step = int(session.run(self._global_step))
        taken = step - self._loop.step if self._in_call and self._calls else 0
        self._loop.ends(training_file.END_OF_DATA if self._in_call else stopped_by, step, taken)
        if self.saver:
            self.saver.end(session)
        self._loop.finish()
        if self._calls:
            self._calls.stop()

    # -- trainer.Training

    def agree(self, wishes: Callable[[], list[bool]], steps: int) -> list[bool]:
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

    def _wishes(self) -> list[float]:
        self._compared_step = self._loop.step % _COMPARED_STEPS
        return [*self._loop.wishes(), self._compared_step, *([self._calls.next_length()] if self._calls else [])]


class Calls:
    """How many steps each call of a session takes, while it trains. SessionHook asks.

    A call ends where something is due, where it has taken too long, and after a step that has not moved the global step
    by 1; from then on each call takes one step.

    Args:
        timer: None: this task's calls end where those of the others do.
        summary_steps: a summary of each so many steps is written; None: of none.

    Attributes:
        planned, done: steps of the last call: requested, taken.
    """

    def __init__(self, setup: Setup, steps: StepLoop, timer: CallTimer | None, summary_steps: int | None):
        self._plan, self._loop, self._steps, self._timer = setup.plan, setup.loop, steps, timer
        self._summary_steps = summary_steps
        longest = dues.MOST_STEPS_OF_CALL if timer else _MOST_IN_STEP
        self._lengths = dues.CallLengths(setup.plan.config.most_steps_per_call, self._next_due, longest)
        self.losses = steps.losses

    @property
    def step(self) -> int:
        """The last one."""
        return self._loop.step

    def start(self, session: tf.compat.v1.Session) -> None:
        """Training begins."""
        self._session = session
        self.begins_after(self.step)
        self.planned, self._next, self._left = 1, 1, 0
        self._one_step = False  # a step has moved the global step by another number than 1
        if self._timer:
            self._timer.start(session)

    def begins_after(self, step: int) -> None:
        """The first step is the one after this global step."""
        self._first = step

    def begin(self) -> dict[tf.Tensor, int]:
        """A call begins. What it is fed."""
        self.planned = self._left or self._next
        if self._timer:
            self.planned = min(self.planned, self._next_due(self.step) - self.step)  # a profile may have been asked for
            self._timer.begin()
        self._lengths.begin()
        return {self._steps.most: self.planned, self._steps.first: self.step}

    def next_length(self) -> int:
        """What all tasks do in the next call, if this one takes all its steps. The chief says it."""
        if not self._plan.is_chief:
            return 0
        return 1 if self._one_step else self._lengths.of_call_after(self.step + self.planned)

    def took(self, steps: int, step: int) -> None:
        """The call has ended. `step` is the global step now."""
        self.done, self._left = steps, self.planned - steps
        self._lengths.took(steps)
        if step != self.step + steps and not self._one_step:
            self._one_step = True
            if self._plan.is_chief:
                moved = step - self.step - steps + 1
                _log.info('one step a call: the train_op has moved the global step by %d, and not by 1', moved)
        if self._timer:
            self._timer.ended(self._session, early=self._left > 0)

    def plan_next(self, participant: agreement.Participant | None) -> None:
        """What was due after the call is done. The last number of `participant` is `next_length`."""
        if self._one_step:  # in all tasks at once: they move the global step alike
            self._next, self._left = 1, 0
        elif self._timer or participant is None:
            self._next, self._left = self._lengths.of_call_after(self.step), 0
        else:
            self._next = max(1, participant.numbers()[-1])

    def stop(self) -> None:
        """Training is over."""
        if self._timer:
            self._timer.stop()

    def _next_due(self, step: int) -> int:
        return self._loop.next_due(step, alone=True)  # in several tasks the chief asks, and tells the others

    def next_summary(self, step: int) -> int | None:
        """The next step after `step` of which a summary is written; None: of none."""
        return dues.every(self._first + 1, self._summary_steps)(step)  # upstream's hook writes those of the first step
