"""Moves what stands at the top level of a TF_CONFIG, and belongs in its "cluster" or its "task", to its place.

TensorFlow would not read it at the top level. Without a cluster each task would believe that it is alone, and all tasks
would train into one model_dir.
"""

import difflib
import re
from collections.abc import Callable, Mapping

from tf_config.problems import Blame

# Keys that TensorFlow, Estimator or an engine reads at the top level.
_AT_TOP = frozenset(('cluster', 'task', 'sparseCluster', 'environment', 'job', 'rpc_layer', 'service', 'model_dir'))


def put_in_place(
    document: Mapping[str, object], nearest_role: Callable[[str], str | None], blame: Blame
) -> dict[str, object]:
    """A copy of the document in which everything is in its place.

    Args:
        document: a TF_CONFIG, read as JSON.
        nearest_role: name -> the role that it seems to mean, or None.
        blame: called for each entry that was in the wrong place.
    """
    document = dict(document)
    for name in [name for name in document if name not in _AT_TOP]:
        value = document[name]
        near = difflib.get_close_matches(name.lower().partition('_')[0], ('cluster', 'task'), n=1, cutoff=0.8)
        if near and isinstance(value, dict) and near[0] not in document:
            blame(name, value, f'is read by nobody: did you mean "{near[0]}"?')
            document[near[0]] = document.pop(name)
        elif name in ('type', 'index') and not isinstance(value, dict):
            blame(name, value, 'stands at the top level, where nobody reads it: it belongs in "task"')
            _move(document, name, 'task')
        elif _lists_addresses(value) and nearest_role(name):
            blame(name, value, 'stands at the top level, where nobody reads it: it belongs in "cluster"')
            _move(document, name, 'cluster')
    return document


def _move(document: dict[str, object], name: str, place: str) -> None:
    """Moves an entry into the object `place`. If that has an entry of this name, it stays; two lists are joined."""
    target = document.setdefault(place, {})
    if not isinstance(target, dict):
        return
    value = document.pop(name)
    if name in target:
        known = target[name]
        if isinstance(known, list) and isinstance(value, list):
            value = known + [each for each in value if each not in known]
        else:
            value = known
    document[place] = {**target, name: value}


def _lists_addresses(value: object) -> bool:
    """Whether a value looks like the addresses of a role's tasks."""
    if isinstance(value, str):
        value = re.split('[ ,;]+', value)
    elif isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, list) and any(isinstance(each, str) and ':' in each for each in value)
