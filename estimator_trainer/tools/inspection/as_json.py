"""What was found, for JSON: everything, under the names of the attributes."""

import math
from typing import Any

from estimator_trainer.tools.inspection.folder_findings import Findings


def of(found: Findings, sentence: str) -> dict[str, Any]:
    """The report as JSON has it."""
    of_variable = {id(each.variable): each for each in found.roles}
    return {
        'path': found.place.root,
        'what': sentence,
        'kind': _plain(found.kind._asdict()),
        'step': found.files.described.step if found.files.described else None,
        'checkpoint': found.files.described.name if found.files.described else None,
        'newest_whole_checkpoint': found.files.best.name if found.files.best else None,
        'named_checkpoint': found.place.named or None,
        'checkpoints': [_plain(_without(each, 'variables')) for each in found.files.checkpoints],
        'variables': [{**_plain(each._asdict()), **_role(of_variable.get(id(each)))} for each in found.variables],
        'layers': [_layer(each) for each in found.layers],
        'optimizers': [_plain(each._asdict()) for each in found.optimizers],
        'graph': _graph(found.files.graph),
        'exports': [_export(each) for each in found.files.exports],
        'evaluations': [_plain(each._asdict()) for each in found.files.evaluations],
        'own_run': _plain(found.files.own._asdict()) if found.files.own else None,
        'advice': [each._asdict() for each in found.advice],
        'damage': list(found.files.damage),
        'notes': list(found.files.notes),
    }


def _without(value: Any, *names: str) -> dict[str, Any]:
    return {key: each for key, each in value._asdict().items() if key not in names}


def _layer(layer: Any) -> dict[str, Any]:
    return {
        'name': layer.name,
        'kind': layer.kind,
        'part': layer.part,
        'numbers': layer.numbers,
        'bytes': layer.bytes,
        'slices': layer.slices,
        'variables': [variable.name for variable in layer.variables],
    }


def _role(role: Any) -> dict[str, Any]:
    return {'role': role.role, 'of': role.of, 'optimizer': role.by, 'slot': role.slot} if role else {}


def _graph(graph: Any) -> dict[str, Any] | None:
    if graph is None:
        return None
    columns = [{'part': part, 'column': name, 'kind': kind} for (part, name), kind in graph.columns.items()]
    return {**_plain(_without(graph, 'columns', 'head')), 'columns': columns}


def _export(export: Any) -> dict[str, Any]:
    plain = _without(export, 'signatures', 'columns', 'head', 'variables')
    signatures = [
        {
            'name': each.name,
            'method': each.method,
            'inputs': [_plain(tensor._asdict()) for tensor in each.inputs],
            'outputs': [_plain(tensor._asdict()) for tensor in each.outputs],
        }
        for each in export.signatures
    ]
    return {
        **_plain(plain),
        'signatures': signatures,
        'variables': [_plain(each._asdict()) for each in export.variables],
    }


def _plain(value: Any) -> Any:
    """JSON's types; a number that is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
