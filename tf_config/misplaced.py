"""What stands at the top level of a TF_CONFIG, and belongs in its "cluster" or its "task".

Nobody would read it there: with no cluster, each task would take itself for a single process, and all would train into
one model_dir.
"""

import difflib
import re

# What may stand beside a cluster and a task, and is read by somebody.
_AT_TOP = frozenset(('cluster', 'task', 'sparseCluster', 'environment', 'job', 'rpc_layer', 'service', 'model_dir'))


def put_in_place(document, nearest_role, blame):
    """The document, with everything in its place.

    Args:
        nearest_role: name -> the role that it seems to mean, or None.
        blame: (key, value, problem) -> None, called for each thing that was elsewhere.
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


def _move(document, name, place):
    there = document.setdefault(place, {})
    if not isinstance(there, dict):
        return
    value = document.pop(name)
    if name in there:  # what is in its place keeps its place, also in a list
        known = there[name]
        both = isinstance(known, list) and isinstance(value, list)
        value = known + [each for each in value if each not in known] if both else known
    document[place] = {**there, name: value}


def _lists_addresses(value):
    """Whether a value has the form of the tasks of a role."""
    if isinstance(value, str):
        value = re.split('[ ,;]+', value)
    elif isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, list) and any(isinstance(each, str) and ':' in each for each in value)
