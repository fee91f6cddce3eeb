"""TensorFlow 1's names for programs that were written for it, on today's TensorFlow.

For the program's own modules `tensorflow` is `tensorflow.compat.v1` (`surface`), with what can be had of `tf.contrib`.
"""

from estimator_trainer.compat import hook, internals
from estimator_trainer.compat.tf1_names import imports


def install(rule) -> None:
    """Gives TensorFlow 1 to the modules of which the rule says so. The first call in a process counts."""
    internals.install()
    hook.after('tensorflow', _turn_tf2_off)
    imports.replace(rule)


def _turn_tf2_off(tensorflow) -> None:
    from estimator_trainer.compat.patches import deprecations, eager_options

    deprecations.silence()  # nearly every line of such a program is deprecated
    eager_options.install(tensorflow)
    tensorflow.compat.v1.disable_v2_behavior()
