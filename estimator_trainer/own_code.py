"""Which code is the job's own, and not the trainer's, Python's or of an installed package. Imports no TensorFlow."""

import os
import site
import sysconfig
import traceback
from collections.abc import Iterable

_GENERATED = '__autograph_generated_file'
_OURS = os.path.dirname(os.path.abspath(__file__))
_NOT_OF_A_JOB = tuple(
    os.path.join(folder, '')
    for folder in {
        *site.getsitepackages(),
        *map(sysconfig.get_path, ('stdlib', 'purelib', 'platlib', 'scripts')),
        _OURS,
    }
)


def raised_at(error: BaseException) -> list[tuple[str, int]]:
    """(file, line) of each frame of its traceback, the outermost first."""
    return [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]


def innermost(frames: Iterable[tuple[str, int]]) -> tuple[str, int] | None:
    """The last (file, line) of the job's own code; None if there is none."""
    return next((frame for frame in reversed(list(frames)) if _is_of_the_job(frame[0])), None)


def _is_of_the_job(file: str) -> bool:
    if file.startswith('<') or _GENERATED in file:
        return False
    return not os.path.abspath(file).startswith(_NOT_OF_A_JOB)
