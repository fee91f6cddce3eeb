"""Whether TensorFlow's optimizer of graphs (Grappler) may rewrite what is run.

It rounds in another way if something else is fetched as well: even in plain TensorFlow the last bits of the weights
depend on how often summaries are written. What differs by that only has to be equal to the bit without it.
"""

import contextlib

from estimator_trainer.training import runtime

_is_on = True


def in_config(config):
    """The ConfigProto of a session, changed."""
    config.graph_options.rewrite_options.disable_meta_optimizer = not _is_on
    return config


@contextlib.contextmanager
def off():
    global _is_on
    _is_on = False
    try:
        yield
    finally:
        _is_on = True


def install() -> None:
    """From here on the trainer's sessions follow too."""
    original = runtime._session_config
    runtime._session_config = lambda plan: in_config(original(plan))
