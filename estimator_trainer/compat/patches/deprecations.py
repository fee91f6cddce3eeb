"""TensorFlow's own messages of deprecation are not printed.

Touches: tensorflow.python.util.deprecation._PRINT_DEPRECATION_WARNINGS
Without it: nearly every call of an Estimator, and every line of a program of TensorFlow 1, prints several lines
For: the trainer, and programs under `compat run --tf1`
"""

from tensorflow.python.util import deprecation


def silence() -> None:
    """From here on."""
    deprecation._PRINT_DEPRECATION_WARNINGS = False
