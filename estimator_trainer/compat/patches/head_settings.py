"""What the head of a canned Estimator was made with.

Touches: private attributes of the heads of tensorflow_estimator, such as _weight_column and _loss_reduction
Without it: `migrate` cannot tell the loss of a canned Estimator
For: `migrate`
"""


def setting(head, name: str, default=None):
    """An argument of its constructor."""
    return getattr(head, f'_{name}', default)
