"""A line of `tf.logging` is printed once.

Touches: the handlers of tf.get_logger()
Without it: once `logging` is configured after the import of TensorFlow, as absl.app, `logging.basicConfig` and the
  first `logging.warning` do, each line of `tf.logging` is printed twice
For: every program
"""

import logging
import sys


def mend(tensorflow) -> None:
    """Mends the logger of the module `tensorflow`."""
    logger = tensorflow.get_logger()
    for handler in logger.handlers:
        handler.addFilter(lambda record: not (logger.propagate and _is_printed_by_root(record)))


def _is_printed_by_root(record) -> bool:
    return any(record.levelno >= each.level and _prints(each) for each in logging.getLogger().handlers)


def _prints(handler) -> bool:
    stream = getattr(getattr(handler, 'python_handler', handler), 'stream', None)  # absl's has one within
    return stream in (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__)
