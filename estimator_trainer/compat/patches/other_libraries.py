"""Private names of libraries beside TensorFlow."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_SECS = 1.0


@contextlib.contextmanager
def short_download_pauses() -> Iterator[None]:
    """Within it, a request that TFDS repeats pauses for a second at most, and nothing is said of it.

    Touches: urllib3.Retry.get_backoff_time, and the logger of urllib3
    Without it: a task without a network says only after 200 s that it cannot download its data set
    For: the trainer
    """
    import urllib3

    retries: Any = urllib3.Retry  # which has types of its own
    logger, pause = logging.getLogger('urllib3'), retries.get_backoff_time
    level = logger.level
    logger.setLevel(logging.ERROR)
    retries.get_backoff_time = lambda retry: min(_MOST_SECS, pause(retry))
    try:
        yield
    finally:
        logger.setLevel(level)
        retries.get_backoff_time = pause
