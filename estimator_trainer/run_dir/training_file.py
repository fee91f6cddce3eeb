"""training.json of a model_dir, in which the chief says how training goes: its format, its readers and its writer.

The chief writes it at least every BEAT_SECS while it lives:

    state            one of the STATES below
    step, max_steps  global steps; step is the last one that was finished
    checkpoint_step  global step of the last checkpoint, null before the first
    examples_per_sec null before it is known
    input_wait_secs, peer_wait_secs
                     that its steps have waited for their batches, and for other workers, since it was
                     started; absent where that is not measured
    prepared         of data that are being prepared: a number that grows as long as anything happens there;
                     absent otherwise
    peer_silence_secs  by task that the chief watches: for how long it has not answered; absent
                     without such tasks
    why              of 'ended': one of WHY below
    exit             of a chief that ends with anything but 0, as in its error file: code, message,
                     traceback; null before, and where it was killed
    generation       of the gang, as in the environment; '' without
    beat             a counter: as long as it moves, the chief lives
    pid, time        of the writer; seconds since the epoch
"""

import contextlib
import dataclasses
import logging
import os
import threading
import time
import types
from collections.abc import Mapping
from typing import Any

from estimator_trainer.run_dir import file_names, protocol

_log = logging.getLogger('estimator_trainer')
BEAT_SECS = 2

STARTING = 'starting'  # looking for the others, loading data, building the graph
TRAINING = 'training'
EVALUATING = 'evaluating'  # a checkpoint, where there is no evaluator: on the way, or after the last step
ENDED = 'ended'  # nothing is left to train
STOPPED = 'stopped'  # by a signal; the same command resumes
STATES = (STARTING, TRAINING, EVALUATING, ENDED, STOPPED)

MAX_STEPS = 'max_steps'  # or --epochs
EARLY_STOPPING = 'early_stopping'
MAX_SECS = 'max_secs'
END_OF_DATA = 'end_of_data'
STEP_STANDS = 'step_stands'  # the data have ended, and no batch has moved the global step
HOOK = 'hook'  # of the job
LISTENER = 'listener'  # a CheckpointSaverListener of the job
WHY = (MAX_STEPS, EARLY_STOPPING, MAX_SECS, END_OF_DATA, STEP_STANDS, HOOK, LISTENER)

CURE_OF_STEP_STANDS = (
    'pass tf.compat.v1.train.get_global_step() as global_step to minimize() or apply_gradients() of the optimizer'
)


def no_training_data(accumulate_steps: int) -> str:
    """Why a run whose data have ended before its first step has trained nothing."""
    batches = 'no batch' if accumulate_steps == 1 else f'less than the {accumulate_steps} batches of --accumulate_steps'
    return (
        f"the training data have ended before the first step: the input_fn gives {batches} when mode is 'train', here "
        'or in another task. Look at the files that it reads, at what it filters, and at drop_remainder.'
    )


@dataclasses.dataclass(frozen=True)
class TrainingStatus:
    """What the file says, with types. None: that is not known."""

    state: str
    step: int | None = None
    max_steps: int | None = None
    checkpoint_step: int | None = None
    examples_per_sec: float | None = None
    generation: str = ''
    prepared: int | None = None
    why: str | None = None  # training has ended

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> 'TrainingStatus | None':
        """From the file's content; None if that is not one."""
        if value.get('state') not in STATES:
            return None
        rate = value.get('examples_per_sec')
        return cls(
            state=value['state'],
            step=protocol.whole(value.get('step')),
            max_steps=protocol.whole(value.get('max_steps')),
            checkpoint_step=protocol.whole(value.get('checkpoint_step')),
            examples_per_sec=rate if type(rate) in (int, float) else None,
            generation=str(value.get('generation', '')),
            prepared=protocol.whole(value.get('prepared')),
            why=value.get('why') if isinstance(value.get('why'), str) else None,
        )


class TrainingFile:
    """Writes the file of a model_dir, in a thread of its own. One process does so.

    A file system that hangs holds up only those who wait for it. Of the contents that come while one is written, the
    last one is written next.

    Args:
        max_steps: where training ends; None: that is not known yet.
        generation: of the gang, '' without one.
    """

    def __init__(self, model_dir: str, max_steps: int | None, generation: str):
        self._path, self._max_steps, self._generation = (
            os.path.join(model_dir, file_names.TRAINING),
            max_steps,
            generation,
        )
        self._final: tuple[str, str | None] | None = None  # (state, why)
        self._last: int | None = None  # the last step of a run that had nothing left to train
        self._exit: Mapping[str, Any] | None = None  # of a process that fails or is stopped
        self._beat = 0
        self._changed = threading.Condition()  # guards all that follows
        self._next: dict[str, Any] | None = None
        self._is_writing = False
        self._given = self._written = 0

    def finish(self, state: str, why: str | None = None, step: int | None = None) -> None:
        """Training has ended, or was stopped: the file keeps this state. `step`: where, if no step was trained now."""
        self._final, self._last = (state, why), step

    def exits(self, recorded: Mapping[str, Any]) -> None:
        """The writer ends: the file keeps its code, message and traceback."""
        self._exit = recorded

    def begin(
        self,
        state: str,
        step: int | None,
        checkpoint_step: int | None,
        examples_per_sec: float | None,
        more: Mapping[str, Any] = types.MappingProxyType({}),
    ) -> int:
        """Has the present state written, and does not wait for that. The number by which `wait` knows it.

        Args:
            more: what is known of waits and peers.
        """
        with self._changed:
            self._next = self._content(state, step, checkpoint_step, examples_per_sec, more)
            self._given += 1
            number, starts = self._given, not self._is_writing
            self._is_writing = True
        if starts:
            try:
                threading.Thread(target=self._write_all, name='training.json', daemon=True).start()
            except RuntimeError:  # the process cannot start threads any more
                self._write_all()
        return number

    def wait(self, number: int, secs: float | None) -> bool:
        """Waits until that content, or a later one, is written. Whether it is, within `secs`; None: any time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._written >= number, secs)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                content, number, self._next = self._next, self._given, None
                if content is None:
                    self._is_writing = False
                    return
            try:
                self._put(content)
            except Exception:  # a mistake of ours: nobody may wait for it for ever
                _log.exception('%s cannot be written', self._path)
            with self._changed:
                self._written = number
                self._changed.notify_all()

    def _put(self, content: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):
            protocol.write_json(self._path, content)

    def _content(
        self,
        state: str,
        step: int | None,
        checkpoint_step: int | None,
        examples_per_sec: float | None,
        more: Mapping[str, Any],
    ) -> dict[str, Any]:
        state, why = self._final or (state, None)
        self._beat += 1
        return {
            'state': state,
            'why': why,
            'exit': self._exit,
            'step': self._last if step is None else step,
            'max_steps': self._max_steps,
            'checkpoint_step': checkpoint_step,
            'examples_per_sec': examples_per_sec,
            **more,
            'generation': self._generation,
            'beat': self._beat,
            'pid': os.getpid(),
            'time': time.time(),
        }
