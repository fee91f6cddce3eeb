"""TensorFlow's own messages of deprecation are not printed.

Touches: tensorflow.python.util.deprecation._PRINT_DEPRECATION_WARNINGS
Without it: nearly every call of an Estimator, and every line of a program of TensorFlow 1, prints several lines
For: the trainer, and programs under `compat run --tf1`
"""

from estimator_trainer.compat import lacks


def silence() -> None:
    """From here on."""
    with lacks.or_without():
        from tensorflow.python.util import deprecation

        if deprecation._PRINT_DEPRECATION_WARNINGS:
            deprecation._PRINT_DEPRECATION_WARNINGS = False
