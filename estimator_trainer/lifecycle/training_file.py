"""Writes training.json, in which the chief says how training goes (protocol.py describes the format)."""

import contextlib
import os
import time
import types
from collections.abc import Mapping

from estimator_trainer.lifecycle import ending
from estimator_trainer.run_dir import protocol


class TrainingFile:
    """One process writes it.

    Args:
        path: of training.json.
        max_steps: where training ends; None: that is not known yet.
        generation: of the gang, '' without one.
    """

    def __init__(self, path: str, max_steps: int | None, generation: str):
        self._path, self._max_steps, self._generation = path, max_steps, generation
        self._final = None  # (state, why)
        self._exit = None  # of a process that fails or is stopped
        self._beat = 0

    def finish(self, state: str, why: str | None = None) -> None:
        """From here on the file tells this state: training has ended, or was stopped."""
        self._final = state, why

    def exits(self, end: ending.End) -> None:
        """From here on the file tells why its writer ends."""
        self._exit = end.recorded()

    def write(
        self,
        state: str,
        step: int | None,
        checkpoint_step: int | None,
        examples_per_sec: float | None,
        more: Mapping = types.MappingProxyType({}),
    ) -> None:
        """Writes the file. Does nothing if the disk is full: the next checkpoint will fail, and say so.

        Args:
            more: what is known of waits and peers.
        """
        state, why = self._final or (state, None)
        self._beat += 1
        with contextlib.suppress(OSError):
            protocol.write_json(
                self._path,
                {
                    'state': state,
                    'why': why,
                    'exit': self._exit,
                    'step': step,
                    'max_steps': self._max_steps,
                    'checkpoint_step': checkpoint_step,
                    'examples_per_sec': examples_per_sec,
                    **more,
                    'generation': self._generation,
                    'beat': self._beat,
                    'pid': os.getpid(),
                    'time': time.time(),
                },
            )
