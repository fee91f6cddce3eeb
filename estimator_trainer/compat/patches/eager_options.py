"""Lets a program of TensorFlow 1 turn eager execution on with options: tf.enable_eager_execution(config=…).

Touches: the attributes _config, _device_policy and _context_handle of tensorflow.python.eager.context's Context
Without it: such a program ends with "'Context' object has no attribute '_execution_mode'": turning TensorFlow 2's
  behaviour off has made a context without these options
For: programs under `compat run --tf1`
"""

import functools

from estimator_trainer.compat import lacks


def install(tensorflow) -> None:
    """Brings the options into a context that has not been used yet, for `tensorflow.compat.v1`."""
    v1, original = tensorflow.compat.v1, tensorflow.compat.v1.enable_eager_execution

    @functools.wraps(original)
    def enable(config=None, device_policy=None, execution_mode=None):
        set_options(config, device_policy)
        return original(config, device_policy, execution_mode)

    v1.enable_eager_execution = enable


def set_options(config, device_policy) -> None:
    """Gives a context that has not been used yet these options, as far as they are not None."""
    with lacks.or_without():
        from tensorflow.python.eager import context

        of_process = context.context()
        if of_process._context_handle is not None:  # it is used already: TensorFlow refuses other options
            return
        if config is not None:
            of_process._config = config
        if device_policy is not None:
            of_process._device_policy = device_policy
