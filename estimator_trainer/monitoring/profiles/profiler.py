"""Records some training steps of this task with TensorFlow's profiler, which works in sessions and in eager loops."""

import contextlib
import glob
import logging
import os
import threading
import time

import tensorflow as tf

from estimator_trainer.monitoring.profiles import event_names, read, schedule
from estimator_trainer.monitoring.profiles.schedule import Steps
from estimator_trainer.monitoring.side_process import SideProcessFailed
from estimator_trainer.run_dir import removal

_log = logging.getLogger('estimator_trainer')
_SMALL_SECS = 0.2  # a profile that is written in less than this holds up training for so long
_SUFFIX = '.xplane.pb'


class Profiler:
    """The profiles of one task. The main thread tells it of each call of TensorFlow.

    A profile becomes `plugins/profile/steps-<first>-<last>/<task>.xplane.pb` in the model_dir. A thread writes it,
    and a process of its own reads it (`reading`). A failure costs the profile and one warning.

    Args:
        model_dir: of the run.
        task: name of this task, such as 'worker:1'.
        wanted: the steps of --profile_steps, or None. Calls of all tasks end at these steps.
        chosen: whether this task profiles them.
        end: the last step of the training.
    """

    def __init__(self, model_dir: str, task: str, wanted: Steps | None, chosen: bool, end: int):
        self._wanted, self._chosen, self._end = wanted, chosen, end
        self._schedule = schedule.Schedule(wanted if chosen else None)
        self._folder = os.path.join(model_dir, 'plugins', 'profile')
        self._name = task.replace(':', '-')
        self._unfinished = os.path.join(model_dir, 'plugins', f'.{self._name}')
        self._call: tf.profiler.experimental.Trace | None = None  # the annotation of the call that runs now
        self._first = 0  # step of the profile
        self._step = 0
        self._over = False
        self._written = threading.Event()  # TensorFlow has written the last profile; another one may begin
        self._written.set()
        self._exports: list[tuple[threading.Thread, read.ProfileReader]] = []

    def ask(self) -> None:
        """Profiles the next steps, because of a signal. Any thread may call it."""
        if self._over:
            _log.info('received SIGUSR2: training is over, so there is nothing to profile')
        elif self._schedule.ask():
            _log.info('received SIGUSR2: profiles the next %d steps', schedule.ASKED_STEPS)
        else:
            _log.info('received SIGUSR2: a profile is under way already')

    def start(self, step: int) -> None:
        """Training begins, or goes on, after `step`."""
        self._remove_unfinished()
        if self._chosen and self._wanted and self._end < self._wanted.to:
            _log.info('--profile_steps=%d,%d: training ends at step %d', *self._wanted, self._end)
        self.go_on(step)

    def begins_call(self) -> None:
        """A call of TensorFlow begins."""
        if self._schedule.recording:
            self._call = _annotation(event_names.CALL)
            self._call.__enter__()

    def stepped(self, step: int, taken: int) -> None:
        """A call of `taken` steps has ended, and `step` is the global step."""
        if not self._schedule.recording:
            self.go_on(step)
            return
        if self._call is None:
            return  # the profile has begun since
        self._close_call(self._call, step, taken)
        if self._schedule.ends(step, taken):
            self._stop()

    def border(self, step: int, alone: bool) -> int | None:
        """The next step at which a call has to end for a profile.

        Args:
            alone: whether this task may end calls where other tasks do not.
        """
        borders = (schedule.border_of(self._wanted, step), self._schedule.border(step) if alone else None)
        return min((border for border in borders if border is not None), default=None)

    def interrupt(self, step: int, why: str) -> None:
        """Something else than training follows, after `step`: a profile that is under way ends here."""
        if not self._schedule.recording:
            return
        if self._call:
            self._close_call(self._call, step, step - self._step)
        if self._step >= self._first:
            _log.info('the profile ends after step %d: %s', self._step, why)
            self._schedule.end()
            self._stop()
        else:
            self._schedule.postpone()
            with contextlib.suppress(tf.errors.OpError):  # the job has stopped it
                tf.profiler.experimental.stop(save=False)

    def go_on(self, step: int) -> None:
        """Training goes on after `step`. A profile begins here if it is due."""
        if self._schedule.recording:
            return
        if self._wanted and self._schedule.misses(step):
            _log.info(
                '--profile_steps=%d,%d: nothing is profiled, because step %d is done already', *self._wanted, step
            )
        if self._written.is_set() and self._schedule.begins(step):
            self._begin(step)

    def finish(self) -> None:
        """Training is over."""
        self._over = True
        self.interrupt(self._step, 'training is over')

    def close(self, secs: float) -> None:
        """Waits, `secs` at most, until the last profile has been written and read."""
        deadline = time.monotonic() + secs
        for thread, reader in self._exports:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                reader.kill()
                thread.join(_SMALL_SECS)  # it says what became of the profile
        if not self._written.is_set():
            self._failed(f'it was not written within {secs:g} s')

    def _begin(self, step: int) -> None:
        self._first, self._step = step + 1, step
        try:
            removal.claim(self._unfinished)
            tf.profiler.experimental.start(self._unfinished)
        except Exception as error:  # another profiler records; this system lacks something that TensorFlow asks for
            self._schedule.end()
            self._failed(error)
            return
        with _annotation(event_names.BEGIN):
            pass

    def _close_call(self, call: tf.profiler.experimental.Trace, step: int, taken: int) -> None:
        call.set_metadata(**{event_names.FIRST: step - taken + 1, event_names.LAST: step})
        call.__exit__(None, None, None)
        self._call, self._step = None, step

    def _stop(self) -> None:
        self._written.clear()
        reader = read.ProfileReader()
        thread = threading.Thread(target=self._export, args=(self._first, self._step, reader), daemon=True)
        self._exports = [(other, its) for other, its in self._exports if other.is_alive()] + [(thread, reader)]
        try:
            thread.start()
        except RuntimeError as error:  # this machine has no threads left
            self._exports.remove((thread, reader))
            self._written.set()
            self._failed(error)
            with contextlib.suppress(Exception):  # of a profiler that somebody else has stopped, too
                tf.profiler.experimental.stop(save=False)
            self._remove_unfinished()
            return
        self._written.wait(_SMALL_SECS)

    def _export(self, first: int, last: int, reader: read.ProfileReader) -> None:
        try:
            tf.profiler.experimental.stop()  # records no more at once, and then writes, which may take seconds
            path = self._place(first, last)
        except Exception as error:  # a full disk
            self._failed(error)
            return
        finally:
            self._remove_unfinished()
            self._written.set()
        try:
            said = reader.read(path)
        except SideProcessFailed as error:
            _log.warning('WARNING: the profile was not read (%s); %s %s reads it', error, read.BY_HAND, path)
            return
        _log.info('profile of steps %d to %d: %s', first, last, said[0])
        for line in said[1:]:
            _log.info('  %s', line)

    def _remove_unfinished(self) -> None:
        with contextlib.suppress(removal.NotOurs):
            removal.tree(self._unfinished, removal.Marked(self._unfinished))

    def _place(self, first: int, last: int) -> str:
        """Moves what TensorFlow has written to its place. Tasks that profile the same steps share a folder."""
        (path,) = glob.glob(os.path.join(glob.escape(self._unfinished), 'plugins', 'profile', '*', f'*{_SUFFIX}'))
        number = 1
        while True:
            again = f'.{number}' if number > 1 else ''
            place = os.path.join(self._folder, f'steps-{first}-{last}{again}', self._name + _SUFFIX)
            if not os.path.exists(place):
                break
            number += 1
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.replace(path, place)
        return place

    def _failed(self, why: object) -> None:
        text = str(why).splitlines()[0] if str(why) else type(why).__name__
        _log.warning('WARNING: no profile: %s; training is not affected', text)


def _annotation(name: str) -> 'tf.profiler.experimental.Trace':
    return tf.profiler.experimental.Trace(name)
