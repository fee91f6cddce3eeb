"""What a task does after each call of steps: `Loop.after` is the list. All three trainers call it.

after = loop.begin(step, saves, training)
while not after.stop:
    loop.begins_call()
    ...  # a call of TensorFlow; one that takes several steps ends at `loop.next_due` at the latest
    after = loop.after(step, losses)  # of each step of the call, the last of them `step`
    if after.save:
        ...  # save a checkpoint, and say so by `loop.saved`
        if loop.stops_here():
            break
loop.ends(why, step, taken)
loop.finish()
"""

import errno
import math
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from estimator_trainer.errors import NoBatch
from estimator_trainer.jobs.run_params import RunParams
from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.run_dir import checkpoint_errors, training_file
from estimator_trainer.training.dues import Saves, every
from estimator_trainer.training.plan import Plan

if TYPE_CHECKING:
    import numpy as np

    from estimator_trainer.monitoring.profiles.profiler import Profiler
    from estimator_trainer.training.first_batches import FirstBatches
    from estimator_trainer.training.reports import Reports
    from estimator_trainer.training.trainer import Training

_SIGNALS, _REASONS = (signal.SIGINT, signal.SIGTERM), (training_file.EARLY_STOPPING, training_file.MAX_SECS)
_ASK_SECS = 0.5  # between two looks for a reason, which reads a file
WISHES = len(_SIGNALS) + len(_REASONS) + 1  # of a task; the last one is to save


class NotFiniteError(ArithmeticError):
    """The loss or a weight is NaN or infinite. Its text says what and at which step."""


class AfterCall(NamedTuple):
    """What follows a call.

    Attributes:
        stop: no other call.
        save: a checkpoint of this step is due, in every task that takes part in one.
    """

    stop: bool
    save: bool


class Loop:
    """Knows what all synchronous tasks do after a call of steps.

    Args:
        watchdog, profiler: are told of each call.
        stop_reason: () -> EARLY_STOPPING, MAX_SECS or None; the chief is asked, or every asynchronous
            task, about twice a second.
        first_batches: None: nobody compares them.
        keep_position: (step, batches, beside) -> None, called on the chief before a checkpoint of this step is written:
            the steps of this process have trained so many batches, and hooks of the job have read others beside them.

    Attributes:
        step: the global step.
        batches: trained in this process. The train_op may move the global step by any number for each of them.
        not_finite: names of the weights that were not finite when training began, such as the least loss so far of a
            job. They may stay so.
        why: the reason that ended training, one of `training_file.WHY`; None: it goes on, or a signal has ended it.
    """

    def __init__(
        self,
        plan: Plan,
        params: RunParams,
        watchdog: watchdogs.Watchdog,
        stop_reason: Callable[[], str | None],
        profiler: 'Profiler | None' = None,
        first_batches: 'FirstBatches | None' = None,
        keep_position: Callable[[int, float, float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._plan, self._params, self._watchdog = plan, params, watchdog
        self._stop_reason, self._profiler = stop_reason, profiler
        self._first_batches, self._keep_position, self._clock = first_batches, keep_position, clock
        self._asked: str | None = None
        self._asked_at: float | None = None
        self.batches, self.not_finite = 0, set[str]()
        self.why: str | None = None

    def begin(self, step: int, saves: Saves, training: 'Training', reports: 'Reports | None' = None) -> AfterCall:
        """Training begins, or goes on, after this step. Whether it stops at once: what ended the last run may still
        stand.

        Args:
            reports: of the chief.

        Raises:
            checkpoint_errors.CannotReadCheckpoint: the checkpoint was not restored. Where TensorFlow may not read
                the file that names it, it starts from the beginning without a word.
            RuntimeError: this process has trained already: its input does not begin at `step` again.
        """
        if self.batches:
            what = 'with data of a later one: TensorFlow has made another session; the same command resumes exactly'
            raise RuntimeError(f'training would go on from step {step} {what}')
        start = self._params.start_step
        if step < start and not self._plan.asynchronous:
            raise checkpoint_errors.CannotReadCheckpoint(
                errno.EIO, f'training would begin at step {step}', f'the checkpoint of step {start}'
            )
        self.step = self._first = step
        self._training, self._saves, self._reports = training, saves, reports
        self._irregular = False  # a step has moved the global step by another number than 1
        saves.saved(step)
        self._watchdog.trains_from(step)
        if self._profiler:
            self._profiler.start(step)
        if reports:
            reports.start(step)
        stop, _ = self._agreed(1)
        return AfterCall(self._ended(step) or stop, False)

    def begins_call(self) -> None:
        """A call of TensorFlow begins."""
        if self._profiler:
            self._profiler.begins_call()

    def after(self, step: int, losses: 'Sequence[float] | np.ndarray') -> AfterCall:
        """A call has taken some steps.

        Args:
            step: the global step after the call. All of its steps but the last have moved it by 1.
            losses: of each of the steps, over the global batch.

        Raises:
            NotFiniteError: a loss is not.
        """
        # 1. Is every loss finite? If not, nothing of these steps is told or saved.
        before, steps = self.step, self._steps_of(step, len(losses))
        for number, loss in zip(steps, losses):
            if not math.isfinite(loss):
                raise NotFiniteError(f'the loss is {float(loss)} at step {number}')

        # 2. The task lives: tell those who watch it.
        self.step, self.batches = step, self.batches + len(losses)
        self._irregular = self._irregular or step != before + len(losses)
        self._watchdog.stepped(step)
        if self._profiler:
            self._profiler.stepped(step, len(losses))
        if self._first_batches:
            self._first_batches.after_call()

        # 3. Is a report due?
        if self._reports:
            self._reports.after_call(before, steps, losses, self.batches)

        # 4. Was a task told to stop? Synchronous tasks agree on it, and on what the chief's clock says.
        stop, save = self._agreed(len(losses))

        # 5. Is a checkpoint due?
        if self._plan.is_chief or not self._plan.asynchronous:
            save = save or self._saves.due_after(step)
        save = save and step != self._saves.step  # a checkpoint has the name of its step
        if save:
            self._saves.saved(step)

        return AfterCall(self._ended(before + len(losses) - 1) or stop, save)

    def saves(self, step: int, weights: Iterable[tuple[str, bool]], batches_beside: float = 0) -> None:
        """The chief is about to write a checkpoint of this step.

        Args:
            weights: (name, whether all of it is finite).
            batches_beside: read in this process, but not by steps.

        Raises:
            NotFiniteError: a weight is not finite any more. None such gets into a checkpoint.
        """
        for name, is_finite in weights:
            if not is_finite and name not in self.not_finite:
                raise NotFiniteError(f'{name} is not finite at step {step}')
        if self._keep_position:
            self._keep_position(step, self.batches, batches_beside)

    def saved(self, step: int) -> None:
        """The chief has written a checkpoint of this step. Its evaluation may end training: the next look is fresh."""
        self._watchdog.saved(step)
        self._asked_at = None

    def stops_here(self) -> bool:
        """Whether training ends with the checkpoint that was just saved: a process that trains alone has evaluated it,
        and that may have decided to stop early, or a signal has come. Other tasks agree on it after their next call.
        """
        return self._plan.trains_alone and self._agreed(0)[0]

    @property
    def saved_step(self) -> int:
        """The step of the last checkpoint that was due, or of the one that training began with."""
        return self._saves.step

    def ends(self, why: str, step: int, taken: int) -> None:
        """Training is over after `step`. If `after` has not said so, END_OF_DATA, HOOK or LISTENER has ended it.

        A call that did not come to its end has `taken` some steps all the same, each of which has moved the global step
        by 1. A hook of the job may have moved it without a batch.
        """
        self.batches += 0 if self._plan.asynchronous else taken
        self.step = step
        if self.why is None and self._watchdog.stopped_by is None:
            stands = why == training_file.END_OF_DATA and self.batches > 0 and self.step == self._first
            self.why = training_file.STEP_STANDS if stands else why

    def check_trained(self) -> None:
        """After a training that no error has ended. Asynchronous tasks are not checked: others may train.

        Raises:
            NoBatch: the data of a run that begins have ended before its first step.
        """
        if self.why == training_file.END_OF_DATA and not (self.step or self.batches or self._plan.asynchronous):
            raise NoBatch(training_file.no_training_data(self._plan.config.accumulate_steps))

    def finish(self) -> None:
        """Training is over and saved."""
        if self._reports:
            self._reports.finish(self.step)
        if self._profiler:
            self._profiler.finish()
        self._watchdog.enter(watchdogs.CLOSING)

    # -- several steps in a call

    def next_due(self, step: int, alone: bool) -> int:
        """The next step after which a call has to end. `alone`: this task may end calls where others do not."""
        dues = [self._saves.next(step), every(self._first, self._plan.config.log_every_steps)(step)]
        dues += [self._training.next_due(step), self._profiler.border(step, alone) if self._profiler else None]
        dues.append(step + 1 if self._irregular else None)
        counts_batches = self._plan.config.epochs is not None and not self._plan.asynchronous
        last = self.step + self._batches_left if counts_batches else self._params.max_steps
        return max(step + 1, min([last, *(due for due in dues if due is not None)]))

    # -- steps

    def _steps_of(self, step: int, taken: int) -> list[int]:
        """The global step after each of the steps of a call, which have brought it to `step`."""
        if self._plan.asynchronous:
            return [step] * taken
        return [*(min(number, step) for number in range(self.step + 1, self.step + taken)), step]

    def _ended(self, before: int) -> bool:
        """Whether the run has come to its end, after a step that began at the global step `before`.

        --max_steps is a global step. As with Estimator's StopAtStepHook, training ends with the first step that begins
        at max_steps - 1 or later and reaches it. --epochs count the examples of steps, and not those of hooks alone.
        """
        most = self._params.max_steps
        if self._plan.asynchronous:
            ended = self.step >= most
        elif self._plan.config.epochs is not None:
            ended = self._batches_left <= 0
        else:
            ended = before + 1 >= most and self.step >= most
        if ended:
            self.why = training_file.MAX_STEPS
        return ended

    @property
    def _batches_left(self) -> int:
        """Until --epochs end. An init_fn of the job may restore another global step than that of the model_dir."""
        start = self._first if self._plan.uses_parameter_servers else self._params.start_step
        return self._params.max_steps - start - self.batches

    # -- what the tasks agree on

    def wishes(self) -> list[bool]:
        """This task's, of which there are WISHES."""
        signum = self._watchdog.signum
        now = self._clock()
        asks = self._plan.is_chief or self._plan.asynchronous
        if asks and (self._asked_at is None or now - self._asked_at >= _ASK_SECS):
            self._asked, self._asked_at = self._stop_reason(), now
        by_clock = self._plan.is_chief and self._saves.due_by_clock()
        return [*(signum == number for number in _SIGNALS), *(self._asked == name for name in _REASONS), by_clock]

    def _agreed(self, steps: int) -> tuple[bool, bool]:
        """Whether the tasks stop, and whether they save by the chief's clock."""
        agreed = self._training.agree(self.wishes, steps)
        if agreed is None:
            return False, False
        signals, reasons, save = agreed[: len(_SIGNALS)], agreed[len(_SIGNALS) : -1], agreed[-1]
        if any(signals):
            self._watchdog.obey(_SIGNALS[signals.index(True)])
        elif any(reasons):
            self.why = _REASONS[reasons.index(True)]
        return any(signals) or any(reasons), save
