"""Lets the trainer complete the outputs of an export before Estimator makes signatures of them.

Touches: build_all_signature_defs in the module export.export_lib of tensorflow_estimator
Without it: an export of a classifier with raw receivers has no `serving_default`, which servers ask for
For: the trainer
"""

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def of_completed(complete: Callable[..., dict]) -> Iterator[None]:
    """Inside, Estimator builds the signatures of `complete(receiver_tensors, export_outputs)`."""
    from tensorflow_estimator.python.estimator.export import export_lib

    build = export_lib.build_all_signature_defs

    def build_completed(receiver_tensors, export_outputs, *args, **kwargs):
        return build(receiver_tensors, complete(receiver_tensors, export_outputs), *args, **kwargs)

    export_lib.build_all_signature_defs = build_completed
    try:
        yield
    finally:
        export_lib.build_all_signature_defs = build
