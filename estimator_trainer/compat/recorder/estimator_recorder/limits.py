"""How long a program may train, and where it may write.

Every model_dir and every folder for exports is moved into the folder of the run, unless it is there already. Its name
there comes from the program's own path, so that all runs, and all processes of a run, use the same.
"""

from __future__ import annotations

import hashlib
import os
import re

NEVER = 10**9  # seconds


class Folders:
    """Where the program's own paths have moved to, below `folder`."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.realpath(folder)
        self._moved: dict[str, str] = {}
        self._unnamed = 0

    def moved(self, path: str | bytes | os.PathLike[str] | None) -> str:
        """The path in the folder of the run that takes the place of `path`; a new one for None."""
        if path is None:
            self._unnamed += 1
            return os.path.join(self._folder, 'moved', f'unnamed-{self._unnamed}')
        path = os.fspath(path)
        path = path.decode() if isinstance(path, bytes) else path
        known = self.known(path)
        if known is not None:
            return known
        path = _absolute(path)
        digest = hashlib.sha1(path.encode('utf-8', 'surrogateescape')).hexdigest()[:8]
        name = os.path.basename(path.rstrip('/')) or 'root'
        self._moved[path] = os.path.join(self._folder, 'moved', f'{name}-{digest}')
        return self._moved[path]

    def known(self, path: str) -> str | None:
        """Where `path` is now, if it is in the folder of the run or has moved, itself or a folder above it."""
        path = _absolute(path)
        if _is_below(os.path.realpath(path), self._folder):
            return path
        for given in sorted(self._moved, key=len, reverse=True):
            if _is_below(path, given):
                return self._moved[given] + path[len(given) :]
        return None

    def short_name(self, path: str) -> str:
        """A short name for a path in the folder of the run."""
        return os.path.relpath(os.path.realpath(path), self._folder)


def _absolute(path: str) -> str:
    return path if '://' in path else os.path.abspath(path)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip('/') + '/')


def step_of(checkpoint: str | None) -> int:
    """The global step in the name of a checkpoint, as Estimator writes it; 0 where there is none."""
    match = re.search(r'-([0-9]+)$', checkpoint or '')
    return int(match.group(1)) if match else 0


class Budget:
    """The steps that each model_dir still has: `steps` from where its checkpoint was at the beginning."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._begun: dict[str, int] = {}
        self._planned: dict[str, int] = {}

    def end(self, model_dir: str, start: int, steps: int | None = None, max_steps: int | None = None) -> int:
        """The global step at which a call of `train` ends, which begins at `start`."""
        begun = self._begun.setdefault(model_dir, start)
        if max_steps is not None and self._planned.get(model_dir) == max_steps:
            return max_steps
        if max_steps is not None:  # a run that is continued trains beyond the program's max_steps
            return begun + min(self._steps, max_steps)
        return min(start + steps, begun + self._steps) if steps is not None else begun + self._steps

    def plan(self, model_dir: str, start: int, max_steps: int | None) -> int:
        """As `end`, for train_and_evaluate, which passes it to `train` as max_steps."""
        self._planned[model_dir] = self.end(model_dir, start, None, max_steps)
        return self._planned[model_dir]
