"""Shortens the pauses in which TFDS repeats a request to a server that does not answer, and says nothing of them.

Touches: urllib3.Retry.get_backoff_time, and the logger of urllib3
Without it: a task without a network says only after 200 s that it cannot download its data set
For: the trainer
"""

import contextlib
import logging

_MOST_SECS = 1.0


@contextlib.contextmanager
def short():
    """Within it a request that is tried again pauses for a second at most, and nothing is said of it."""
    import urllib3

    logger, pause = logging.getLogger('urllib3'), urllib3.Retry.get_backoff_time
    level = logger.level
    logger.setLevel(logging.ERROR)
    urllib3.Retry.get_backoff_time = lambda retry: min(_MOST_SECS, pause(retry))
    try:
        yield
    finally:
        logger.setLevel(level)
        urllib3.Retry.get_backoff_time = pause
