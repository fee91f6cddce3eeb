"""What was found, as text and as JSON."""

import datetime
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from estimator_trainer.tools.inspection import advice, kinds, roles
from estimator_trainer.tools.inspection.folder_findings import EvaluationMetrics, Findings
from estimator_trainer.tools.inspection.roles import Optimizer
from estimator_trainer.tools.inspection.saved_files import CHECKSUMS, NO_INDEX, Export
from estimator_trainer.tools.reporting import section, table, wrapped
from estimator_trainer.tools.status import line

_ROWS = 40  # of a table, unless all are asked for
_HIGHER = ('accuracy', 'auc', 'precision', 'recall', 'f1')  # metrics of which more is better
_LACKS = 'TensorFlow here does not have these operations of it: {}.'


def text(findings: Findings, everything: bool = False) -> str:
    """The report for a terminal. `everything` lists every variable."""
    lines = [os.path.join(findings.place.run.path, findings.place.only).rstrip('/'), *wrapped([sentence(findings)])]
    lines += section('Damage', findings.damage)
    if findings.damage and findings.best and findings.best.name != findings.place.run.pointer.name:
        lines += wrapped([f'The newest checkpoint that is whole is {findings.best.name}.'], '  ', '    ')
    known = [*(findings.kind.why if findings.variables else ()), *_graph_lines(findings)]
    lines += section('How this is known', known)
    lines += section('Columns', [f'{part}s: {", ".join(names)}.' for part, names in findings.columns.items() if names])
    title = 'Variables' if everything else f'Weights ({_weights(findings)})'
    lines += _table(title, _variable_rows(findings, everything), None if everything else _ROWS)
    lines += section('Optimizers', _optimizer_lines(findings))
    lines += _table('Checkpoints', _checkpoint_rows(findings), _ROWS)
    for export in findings.exports:
        lines += section(_export_title(export), _export_lines(export))
    lines += section('Evaluations', _evaluation_lines(findings.evaluations))
    lines += section('Run of this trainer', _own_lines(findings))
    lines += section('Notes', findings.notes)
    answers = [f'{each.what:9} {each.answer}. {each.reason}' for each in advice.advise(findings)]
    return '\n'.join(lines + section('What can be done here', answers))


def sentence(findings: Findings) -> str:
    """The first sentence: what the folder is."""
    kind, at, own = findings.kind, findings.described, findings.own
    if not findings.variables:
        return _without_variables(findings)
    subject = 'A checkpoint of ' if findings.place.only else 'A run of '
    if not at and findings.place.checkpoints:
        subject = 'A run without a checkpoint that can be read; its SavedModel is of '
    elif not at:
        number = len(findings.exports)
        subject = f'{number} SavedModels, the last one of ' if number > 1 else 'A SavedModel of '
    name = kind.name
    if kind.family in (kinds.CANNED, kinds.RNN) and kind.version == kinds.V1:
        name += ' (the class of TensorFlow 1, here tf.compat.v1.estimator)'
    elif kind.version == kinds.V2:
        name += ' (the class of TensorFlow 2)'
    if own:
        loop = '' if own.config['loop'] == 'estimator' else f' with --loop={own.config["loop"]}'
        canned = f', with {name},' if kind.family in (kinds.CANNED, kinds.RNN, kinds.KERAS) else ''
        name = f'this trainer{loop}, job {own.config["job"]}{canned}'
    step = f' at step {at.step:,}' if at and at.step is not None else ''
    parts = _parts(findings)
    trained = _joined([each.name for each in findings.optimizers])
    end = '. No checkpoint of it is whole.' if at and not findings.best else '.'
    return f'{subject}{name}{step}' + (f': {parts}' if parts else '') + (f'; {trained}' if trained else '') + end


def _without_variables(findings: Findings) -> str:
    if findings.exports:
        unread = all(each.damage for each in findings.exports)
        return 'A SavedModel whose graph cannot be read.' if unread else 'A SavedModel without variables.'
    return f'A {"graph" if findings.graph else "model_dir"} without a checkpoint that can be read.'


def _parts(findings: Findings) -> str:
    kind, said = findings.kind, []
    for part, columns in findings.columns.items():
        least = 'at least ' if part == kinds.DEEP_COLUMN and not findings.columns_are_known else ''
        said += [f'{least}{_count(len(columns), part)}'] if columns else []
    hidden = kinds.hidden_units(findings.weights)
    if hidden:
        several = 's' if len(hidden) > 1 else ''
        said.append(f'hidden layer{several} of {_joined([str(each) for each in hidden])} units')
    if not said and findings.weights:
        numbers = sum(math.prod(each.shape) for each in findings.weights)
        said.append(f'{_count(len(findings.weights), "weight")} of {_count(numbers, "number")}')
    if findings.moving_averages:
        said.append(f'{_count(findings.moving_averages, "moving average")} of batch normalization')
    if kind.classes:
        said.append(f'{kind.classes} classes')
    elif kind.family == kinds.CANNED and kind.width:
        said.append(_count(kind.width, 'output'))
    return ', '.join(said)


def _graph_lines(findings: Findings) -> list[str]:
    graph = findings.graph
    if not graph:
        return []
    by = f', written by TensorFlow {graph.version}' if graph.version else ''
    said = [f'{graph.source} holds a graph of {graph.operations:,} operations{by}.']
    said += [f'It places variables on {_count(graph.servers, "parameter server")}.'] if graph.servers else []
    return said + ([_LACKS.format(', '.join(graph.unknown))] if graph.unknown else [])


def _weights(findings: Findings) -> str:
    numbers = sum(math.prod(each.shape) for each in findings.weights)
    size, total = (sum(each.bytes for each in every) for every in (findings.weights, findings.variables))
    return f'{_count(numbers, "number")} in {_mb(size)}; all variables {_mb(total)}'


def _variable_rows(findings: Findings, everything: bool) -> Iterable[tuple[str, ...]]:
    yield 'name', 'role', 'type', 'shape', 'size', 'slices', 'slots'
    slots: dict[str, list[str]] = {}
    for each in findings.roles:
        if each.role in (roles.SLOT, roles.SHADOW):
            slots.setdefault(each.weight, []).append(each.slot or 'ExponentialMovingAverage')
    for each in findings.roles:
        variable, size = each.variable, _mb(each.variable.bytes)
        if everything or each.role in (roles.WEIGHT, roles.MOVING):
            names = ', '.join(dict.fromkeys(slots.get(variable.name, ()))) or '-'
            yield variable.name, each.role, variable.dtype, variable.shown_shape, size, f'{variable.slices}', names


def _optimizer_lines(findings: Findings) -> list[str]:
    said = [_optimizer_line(each) for each in findings.optimizers]
    averages = sum(each.role == roles.SHADOW for each in findings.roles)
    said += [f'ExponentialMovingAverage: averages of {_count(averages, "weight")}.'] if averages else []
    values = findings.described.settings if findings.described else {}
    scales = [
        each.variable.name for each in findings.roles if each.role == roles.SCALE and each.variable.name in values
    ]
    said += [f'A dynamic loss scale: {", ".join(f"{name} {values[name]:g}" for name in scales)}.'] if scales else []
    if not said and findings.described:
        said = ['No slots are saved: the optimizer keeps none, as gradient descent does, or they were left out.']
    return said


def _optimizer_line(optimizer: Optimizer) -> str:
    slots = 'no slots'
    if optimizer.slots:
        weights = _count(optimizer.weights, 'weight')
        slots = f'slots {", ".join(optimizer.slots)} of {weights}, {_mb(optimizer.bytes)}'
    settings = [
        f'{name} ' + ' or '.join('computed by the graph' if value is None else f'{value:g}' for value in values)
        for name, values in sorted(optimizer.settings.items())
    ]
    return f'{optimizer.name}: {"; ".join(filter(None, (slots, ", ".join(settings))))}.'


def _checkpoint_rows(findings: Findings) -> Iterable[tuple[str, ...]]:
    yield 'name', 'step', 'written', 'size', 'form', 'state'
    for each in findings.checkpoints:
        state = 'whole' if each.checked == CHECKSUMS else 'whole by its sizes'
        if each.damage:
            state = 'no index' if each.damage == NO_INDEX else 'damaged'
        if each.name == findings.place.run.pointer.name:
            state += ', the one that `checkpoint` names'
        step = '-' if each.step is None else f'{each.step:,}'
        when = datetime.datetime.fromtimestamp(each.time).strftime('%Y-%m-%d %H:%M')
        yield each.name, step, when, _mb(each.bytes), each.form or '-', state


def _export_title(export: Export) -> str:
    path = 'SavedModel' if export.path == '.' else f'Export {export.path}'
    facts = [f'TensorFlow {export.version}' if export.version else '', _mb(export.bytes), export.damage or 'whole']
    return f'{path} ({", ".join(filter(None, facts))})'


def _export_lines(export: Export) -> list[str]:
    said = []
    for each in export.signatures:
        method = f' ({each.method})' if each.method and each.method != each.name else ''
        takes, gives = (_listed(tensors) or 'nothing' for tensors in (each.inputs, each.outputs))
        said.append(f'{each.name}{method} takes {takes} and gives {gives}.')
    said += [f'It parses tf.Examples with {_listed(export.features)}.'] if export.features else []
    said += [_LACKS.format(', '.join(export.unknown))] if export.unknown else []
    return said or ['It has no signatures.']


def _listed(named: Mapping[str, str]) -> str:
    return '; '.join(f'{name}: {text}' for name, text in named.items())


def _evaluation_lines(every: Sequence[EvaluationMetrics]) -> list[str]:
    said = []
    for name in dict.fromkeys(each.name for each in every):
        its = [each for each in every if each.name == name]
        metrics = ', '.join(f'{key} {value:.4g}' for key, value in sorted(its[-1].metrics.items()))
        said.append(f'{name}: {_count(len(its), "evaluation")}; the last one at step {its[-1].step:,}: {metrics}.')
        said += [f'{name}: {best}' for best in _best(its)] if len(its) > 1 else []
    return said


def _best(every: Sequence[EvaluationMetrics]) -> Iterable[str]:
    for metric, word, choose in (('loss', 'lowest', min), *((name, 'highest', max) for name in _HIGHER)):
        having = [each for each in every if math.isfinite(each.metrics.get(metric, math.nan))]
        if having:
            best = choose(having, key=lambda each: each.metrics[metric])
            yield f'the {word} {metric} is {best.metrics[metric]:.4g}, at step {best.step:,}.'


def _own_lines(findings: Findings) -> list[str]:
    run = findings.own
    if not run:
        return []
    config = run.config
    tasks = config['cluster'] if isinstance(config.get('cluster'), dict) else {}
    numbers = ((role, len(each)) for role, each in tasks.items() if isinstance(each, list))
    cluster = ', '.join(f'{number} {role}' for role, number in numbers) or 'one process'
    versions = config['versions'] if isinstance(config.get('versions'), dict) else {}
    written_by = ', '.join(f'{name} {version}' for name, version in versions.items()) or 'unknown versions'
    return [
        f'{line(run, "It", time.time())}.',
        f'global batch {config["global_batch_size"]}, strategy {config.get("strategy")}, {cluster}.',
        f'Begun or last started with {written_by}.',
    ]


def _table(title: str, rows: Iterable[tuple[str, ...]], most: int | None) -> list[str]:
    rows = list(rows)
    left = len(rows) - 1 - most if most else 0
    more = [f'  and {left} more; --variables lists all variables'] if left > 0 else []
    return ['', f'{title}:', *table(rows[: most and most + 1]), *more] if len(rows) > 1 else []


def _count(number: int, word: str) -> str:
    return f'{number:,} {word}{"" if number == 1 else "s"}'


def _joined(words: Sequence[str]) -> str:
    return ' and '.join([', '.join(words[:-1]), words[-1]] if len(words) > 2 else words)


def _mb(size: int) -> str:
    return f'{size / 1e6:,.2f} MB' if size >= 10_000 else f'{size:,} B'


def document(findings: Findings) -> dict[str, Any]:
    """The report as JSON has it: everything, under the names of the attributes."""
    described, best, own = findings.described, findings.best, findings.own
    return _plain(
        {
            'path': findings.place.run.path,
            'what': sentence(findings),
            'kind': findings.kind,
            'step': described and described.step,
            'checkpoint': described and described.name,
            'newest_whole_checkpoint': best and best.name,
            'named_checkpoint': findings.place.run.pointer.name or None,
            'checkpoints': [_without(each, 'variables') for each in findings.checkpoints],
            'variables': [
                {
                    **each.variable._asdict(),
                    'role': each.role,
                    'of': each.weight,
                    'optimizer': each.by,
                    'slot': each.slot,
                }
                for each in findings.roles
            ],
            'columns': findings.columns,
            'optimizers': findings.optimizers,
            'graph': findings.graph and _without(findings.graph, 'head'),
            'exports': [_without(each, 'head') for each in findings.exports],
            'evaluations': findings.evaluations,
            'own_run': own
            and {
                'job': own.config['job'],
                'loop': own.config['loop'],
                'dataset': own.config.get('dataset') or '',
                'command': advice.command(own),
                'config': own.config,
                'state': own.training,
                'last': next((each for each in reversed(own.last_metrics) if each.get('kind') == 'train'), {}),
            },
            'advice': advice.advise(findings),
            'damage': findings.damage,
            'notes': findings.notes,
        }
    )


def _without(value: Any, name: str) -> dict[str, Any]:
    return {key: each for key, each in value._asdict().items() if key != name}


def _plain(value: Any) -> Any:
    """JSON's types: a named tuple becomes an object, and a number that is not finite null."""
    if hasattr(value, '_asdict'):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
