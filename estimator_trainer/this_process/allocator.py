"""The allocator of a process's memory. Imports no TensorFlow.

TensorFlow frees the buffers of a step and asks for the same ones in the next. glibc, as it comes, gives large ones back
to the kernel at once, so that each step pays for new pages. With higher thresholds it keeps them; jemalloc does so by
itself, and its threads get less in each other's way.
"""

import ctypes
import glob
import os
from collections.abc import Mapping

SYSTEM = "the system's allocator"
_JEMALLOC = 'libjemalloc.so.2'
FOLDERS = ('/usr/lib/*-linux-gnu', '/usr/lib64', '/usr/lib', '/usr/local/lib')
# mallopt(3): parameter, value. A glibc that does not take a large threshold takes 32 MiB.
_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD = -3, -1, -2
_KEPT_BYTES, _LEAST_KEPT_BYTES, _PAD_BYTES = 2**30, 32 * 2**20, 64 * 2**20


def tune() -> str:
    """Sets the thresholds of glibc's allocator in this process, and says which allocator it has.

    Call it before TensorFlow is imported.
    """
    own = ctypes.CDLL(None)
    loaded = os.environ.get('LD_PRELOAD', '')
    if hasattr(own, 'mallctl'):
        return 'jemalloc'
    if 'malloc' in loaded:
        return f'the allocator of LD_PRELOAD={loaded}'
    if not hasattr(own, 'mallopt'):
        return SYSTEM
    keeps = own.mallopt(_MMAP_THRESHOLD, _KEPT_BYTES) or own.mallopt(_MMAP_THRESHOLD, _LEAST_KEPT_BYTES)
    if keeps and own.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES) and own.mallopt(_TOP_PAD, _PAD_BYTES):
        return "glibc's allocator, which keeps freed memory for the next step"
    return SYSTEM


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process that has jemalloc, where this machine has it installed."""
    library = _jemalloc()
    loaded = environ.get('LD_PRELOAD', '')
    if library is None or 'malloc' in loaded:
        return dict(environ)
    return {**environ, 'LD_PRELOAD': f'{loaded}:{library}' if loaded else library}


def environment_of_program(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that does not call `tune`. It sets the thresholds if there is no jemalloc."""
    given = environment(environ)
    if 'malloc' in given.get('LD_PRELOAD', ''):
        return given
    thresholds = {
        'MALLOC_MMAP_THRESHOLD_': _KEPT_BYTES,
        'MALLOC_TRIM_THRESHOLD_': _KEPT_BYTES,
        'MALLOC_TOP_PAD_': _PAD_BYTES,
    }
    return {**{name: str(value) for name, value in thresholds.items()}, **given}


def _jemalloc() -> str | None:
    return next((path for folder in FOLDERS for path in sorted(glob.glob(f'{folder}/{_JEMALLOC}'))), None)
