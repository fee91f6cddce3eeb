"""What was found, for JSON: everything, under the names of the attributes."""

import math
from typing import Any

from estimator_trainer.tools.inspection import advice
from estimator_trainer.tools.inspection.facts import Findings


def document(findings: Findings, sentence: str) -> dict[str, Any]:
    """The report as JSON has it."""
    roles = {id(each.variable): each for each in findings.roles}
    columns = findings.graph.columns.items() if findings.graph else ()
    return _plain(
        {
            'path': findings.place.root,
            'what': sentence,
            'kind': findings.kind,
            'step': findings.described.step if findings.described else None,
            'checkpoint': findings.described.name if findings.described else None,
            'newest_whole_checkpoint': findings.best.name if findings.best else None,
            'named_checkpoint': findings.place.named or None,
            'checkpoints': [_without(each, 'variables') for each in findings.checkpoints],
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
            'graph': findings.graph
            and {
                **_without(findings.graph, 'columns', 'head', 'variables'),
                'variables': list(map(tuple, findings.graph.variables)),  # as lists, which programs read by now
                'columns': [{'part': part, 'column': name, 'kind': kind} for (part, name), kind in columns],
            },
            'exports': [_without(each, 'columns', 'head') for each in findings.exports],
            'evaluations': findings.evaluations,
            'own_run': findings.own,
            'advice': advice.advise(findings),
            'damage': findings.damage,
            'notes': findings.notes,
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
