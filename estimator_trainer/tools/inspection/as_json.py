"""What was found, for JSON: everything, under the names of the attributes."""

import math
from typing import Any

from estimator_trainer.tools.inspection.folder_findings import Findings


def document(findings: Findings, sentence: str) -> dict[str, Any]:
    """The report as JSON has it."""
    files = findings.files
    roles = {id(each.variable): each for each in findings.roles}
    columns = files.graph.columns.items() if files.graph else ()
    return _plain(
        {
            'path': findings.place.root,
            'what': sentence,
            'kind': findings.kind,
            'step': files.described.step if files.described else None,
            'checkpoint': files.described.name if files.described else None,
            'newest_whole_checkpoint': files.best.name if files.best else None,
            'named_checkpoint': findings.place.named or None,
            'checkpoints': [_without(each, 'variables') for each in files.checkpoints],
            'variables': [{**each._asdict(), **_role(roles.get(id(each)))} for each in findings.variables],
            'layers': [
                {
                    **_without(each, 'variables'),
                    'numbers': each.numbers,
                    'bytes': each.bytes,
                    'slices': each.slices,
                    'variables': [variable.name for variable in each.variables],
                }
                for each in findings.layers
            ],
            'optimizers': findings.optimizers,
            'graph': files.graph
            and {
                **_without(files.graph, 'columns', 'head', 'variables'),
                'variables': list(map(tuple, files.graph.variables)),  # as lists, which programs read by now
                'columns': [{'part': part, 'column': name, 'kind': kind} for (part, name), kind in columns],
            },
            'exports': [_without(each, 'columns', 'head') for each in files.exports],
            'evaluations': files.evaluations,
            'own_run': files.own,
            'advice': findings.advice,
            'damage': files.damage,
            'notes': files.notes,
        }
    )


def _without(value: Any, *names: str) -> dict[str, Any]:
    return {key: each for key, each in value._asdict().items() if key not in names}


def _role(role: Any) -> dict[str, Any]:
    return {'role': role.role, 'of': role.weight, 'optimizer': role.by, 'slot': role.slot} if role else {}


def _plain(value: Any) -> Any:
    """JSON's types: a named tuple becomes an object, and a number that is not finite null."""
    if hasattr(value, '_asdict'):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
