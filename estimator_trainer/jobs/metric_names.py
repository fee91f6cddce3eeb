"""Finds out from the name of a metric whether lower or higher is better, and which name was meant. Pure."""

import re

MODES = ('min', 'max')
_LOWER = {'loss', 'error', 'mse', 'rmse', 'mae', 'perplexity'}
_HIGHER = {'accuracy', 'auc', 'precision', 'recall', 'f1', 'iou', 'ndcg'}
KNOWN = sorted(_LOWER | _HIGHER)  # words whose better direction is known
_TURNED = {'neg', 'negative', 'negated'}


def known_mode(name: str) -> str | None:
    """'min' or 'max', if the words of a metric's name say it (`average_loss`, `top_5_accuracy`), else None."""
    words = set(re.findall('[a-z]+[0-9]*', name.lower()))
    lower, higher = bool(words & _LOWER), bool(words & _HIGHER)
    if lower == higher or words & _TURNED:
        return None
    return 'min' if lower else 'max'


def better(mode: str) -> str:
    """'lower is better' or 'higher is better'."""
    return f'{"higher" if mode == "max" else "lower"} is better'
