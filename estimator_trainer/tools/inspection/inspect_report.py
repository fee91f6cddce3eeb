"""What was found, as text."""

import datetime
import os
import textwrap
from collections.abc import Iterable, Sequence

from estimator_trainer.tools.inspection import layers, optimizers_of_run, roles, sentence
from estimator_trainer.tools.inspection.checkpoint import CHECKSUMS, NO_INDEX
from estimator_trainer.tools.inspection.facts import EvaluationMetrics, Export
from estimator_trainer.tools.inspection.folder_findings import Findings
from estimator_trainer.tools.inspection.sentence import count
from tf_config import tables

_WIDTH = 110
_ROWS = 40  # of a table, unless all are asked for
_HIGHER = ('accuracy', 'auc', 'precision', 'recall', 'f1')  # metrics of which more is better


def text(found: Findings, everything: bool = False) -> str:
    """The report for a terminal. `everything` lists every variable."""
    shown = [*_wrapped(sentence.of(found))]
    if found.files.damage:
        shown += ['', 'Damage:', *_points(found.files.damage)]
        if found.files.best and found.files.best.name != found.place.named:
            shown += _points([f'The newest checkpoint that is whole is {found.files.best.name}.'])
    shown += _section('How this is known', [*(found.kind.why if found.variables else ()), *_of_graph(found)])
    if everything:
        shown += _table('Variables', _variable_rows(found), None)
    else:
        shown += _table(f'Weights ({_weights(found)})', _layer_rows(found), _ROWS)
    shown += _section('Optimizers', _optimizer_lines(found))
    shown += _table('Checkpoints', _checkpoint_rows(found), _ROWS)
    for export in found.files.exports:
        shown += _section(_export_title(export), _export_lines(export))
    shown += _section('Evaluations', _evaluation_lines(found.files.evaluations))
    shown += _section('Run of this trainer', _own_lines(found))
    shown += _section('Notes', found.files.notes)
    if found.advice:
        shown += ['', 'What can be done here:']
        for each in found.advice:
            shown += _wrapped(f'{each.what:9} {each.answer}. {each.reason}', '  ', '    ')
    return '\n'.join(shown)


def _of_graph(found: Findings) -> list[str]:
    if not found.files.graph:
        return []
    graph = found.files.graph
    by = f' by TensorFlow {graph.version}' if graph.version else ''
    said = [f'{graph.source} holds a graph of {graph.operations:,} operations, written{by}.'.replace(', written.', '.')]
    if graph.servers:
        said.append(f'It places variables on {count(graph.servers, "parameter server")}.')
    said += [f'The graph shows: {note}.' for note in graph.notes]
    if graph.unknown:
        said.append(f'TensorFlow here does not have these operations of it: {", ".join(graph.unknown)}.')
    return said


def _weights(found: Findings) -> str:
    numbers = sum(layer.numbers for layer in found.layers)
    total = sum(each.bytes for each in found.variables)
    return (
        f'{count(numbers, "number")} in {_mb(sum(layer.bytes for layer in found.layers))}; all variables {_mb(total)}'
    )


def _layer_rows(found: Findings) -> Iterable[tuple[str, ...]]:
    if not found.layers:
        return
    yield 'name', 'what', 'shapes', 'size', 'slices', 'slots'
    slots: dict[str, list[str]] = {}
    for role in found.roles:
        if role.role in (roles.SLOT, roles.SHADOW):
            name = role.slot or 'ExponentialMovingAverage'
            slots.setdefault(role.of, []).append(name)
    for layer in found.layers:
        what = f'{layer.part}: {layer.kind}' if layer.part != layers.LAYER and layer.kind else layer.kind or layer.part
        shapes = ', '.join(f'{each.name.rpartition("/")[2]} {each.shown_shape}' for each in layer.variables)
        mine = dict.fromkeys(name for each in layer.variables for name in slots.get(each.name, ()))
        yield layer.name or '(top)', what, shapes or '-', _mb(layer.bytes), f'{layer.slices}', ', '.join(mine) or '-'


def _variable_rows(found: Findings) -> Iterable[tuple[str, ...]]:
    yield 'name', 'role', 'type', 'shape', 'size', 'slices'
    for each in found.roles:
        variable = each.variable
        yield variable.name, each.role, variable.dtype, variable.shown_shape, _mb(variable.bytes), f'{variable.slices}'


def _optimizer_lines(found: Findings) -> list[str]:
    said = []
    for each in found.optimizers:
        slots = (
            f'slots {", ".join(each.slots)} of {count(each.weights, "weight")}, {_mb(each.bytes)}'
            if each.slots
            else 'no slots'
        )
        settings = optimizers_of_run.shown_settings(each)
        said.append(f'{each.name}: {slots}' + (f'; {settings}' if settings else '') + '.')
    counted = {name: sum(each.role == name for each in found.roles) for name in (roles.SHADOW, roles.SCALE)}
    if counted[roles.SHADOW]:
        said.append(f'ExponentialMovingAverage: averages of {count(counted[roles.SHADOW], "weight")}.')
    if counted[roles.SCALE]:
        values = found.files.described.settings if found.files.described else {}
        scales = [
            f'{each.variable.name} {values[each.variable.name]:g}'
            for each in found.roles
            if each.role == roles.SCALE and each.variable.name in values
        ]
        said.append(f'A dynamic loss scale: {", ".join(scales)}.')
    if not said and found.files.described:
        said.append('No slots are saved: the optimizer keeps none, as gradient descent does, or they were left out.')
    return said


def _checkpoint_rows(found: Findings) -> Iterable[tuple[str, ...]]:
    if not found.files.checkpoints:
        return
    yield 'name', 'step', 'written', 'size', 'form', 'state'
    for each in found.files.checkpoints:
        how = 'whole' if each.checked == CHECKSUMS else 'whole by its sizes'
        state = 'no index' if each.damage == NO_INDEX else 'damaged' if each.damage else how
        newest = ', the one that `checkpoint` names' if each.name == found.place.named else ''
        step = '-' if each.step is None else f'{each.step:,}'
        when = datetime.datetime.fromtimestamp(each.time).strftime('%Y-%m-%d %H:%M') if each.time else '-'
        yield each.name, step, when, _mb(each.bytes), each.form or '-', state + newest


def _export_title(export: Export) -> str:
    path = 'SavedModel' if export.path == '.' else f'Export {export.path}'
    facts = [f'TensorFlow {export.version}' if export.version else '', _mb(export.bytes), export.damage or 'whole']
    return f'{path} ({", ".join(filter(None, facts))})'


def _export_lines(export: Export) -> list[str]:
    said = []
    for each in export.signatures:
        method = f' ({each.method})' if each.method and each.method != each.name else ''
        takes, gives = ('; '.join(map(str, tensors)) or 'nothing' for tensors in (each.inputs, each.outputs))
        said.append(f'{each.name}{method} takes {takes} and gives {gives}.')
    if export.features:
        said.append(
            'It parses tf.Examples with ' + '; '.join(f'{name}: {kind}' for name, kind in export.features.items()) + '.'
        )
    if export.unknown:
        said.append(f'TensorFlow here does not have these operations of it: {", ".join(export.unknown)}.')
    if not export.signatures and not export.damage:
        said.append('It has no signatures.')
    return said


def _evaluation_lines(found: Sequence[EvaluationMetrics]) -> list[str]:
    said = []
    for name in dict.fromkeys(each.name for each in found):
        mine = [each for each in found if each.name == name]
        last = mine[-1]
        metrics = ', '.join(f'{key} {value:.4g}' for key, value in sorted(last.metrics.items()))
        said.append(f'{name}: {count(len(mine), "evaluation")}; the last one at step {last.step:,}: {metrics}.')
        if len(mine) > 1:
            said += [f'{name}: {line}' for line in _best(mine)]
    return said


def _best(found: Sequence[EvaluationMetrics]) -> Iterable[str]:
    for metric, word, choose in (('loss', 'lowest', min), *((name, 'highest', max) for name in _HIGHER)):
        having = [each for each in found if metric in each.metrics]
        if having:
            best = choose(having, key=lambda each: each.metrics[metric])
            yield f'the {word} {metric} is {best.metrics[metric]:.4g}, at step {best.step:,}.'


def _own_lines(found: Findings) -> list[str]:
    if not found.files.own:
        return []
    own, config = found.files.own, found.files.own.config
    tasks = config['cluster'] if isinstance(config.get('cluster'), dict) else {}
    numbers = ((role, len(each)) for role, each in tasks.items() if isinstance(each, list))
    cluster = ', '.join(f'{number} {role}' for role, number in numbers) or 'one process'
    files = config['flags'].get('train_files')
    data = f'--train_files={files}' if files else f'--dataset={own.dataset}'
    if not files and ':' in own.job:
        data += ' (unless the job has an input_fn of its own)'
    said = [
        f'job {own.job}, --loop={own.loop}, {data}, '
        f'global batch {config["global_batch_size"]}, seed {config["seed"]}, strategy {config.get("strategy")}, '
        f'{cluster}.'
    ]
    params = ', '.join(f'{name}={value}' for name, value in config['params'].items())
    said += [f'Params: {params}.'] if params else []
    kept = config['versions'] if isinstance(config.get('versions'), dict) else {}
    versions = ', '.join(f'{name} {version}' for name, version in kept.items())
    said += [f'Begun or last started with {versions}.'] if versions else []
    if own.state:
        most = f' of {own.state["max_steps"]}' if own.state.get('max_steps') else ''
        why = f' ({own.state["why"]})' if own.state.get('why') else ''
        step = own.state.get('step')
        at = '' if step is None else f' at step {step}{most}'
        said.append(f'training.json: {own.state.get("state")}{why}{at}.')
    if own.last:
        loss = f'loss {own.last["loss"]:.4g}' if isinstance(own.last.get('loss'), float) else 'no loss'
        said.append(f'metrics.jsonl: the last line is of step {own.last.get("step")}, {loss}.')
    return said


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ['', f'{title}:', *_points(lines)] if lines else []


def _points(lines: Iterable[str]) -> list[str]:
    return [wrapped for line in lines for wrapped in _wrapped(line, '  ', '    ')]


def _table(title: str, rows: Iterable[tuple[str, ...]], most: int | None) -> list[str]:
    rows = list(rows)
    if len(rows) < 2:
        return []
    left = len(rows) - 1 - most if most else 0
    rows = rows[: most + 1] if most else rows
    lines = [f'  {line}' for line in tables.aligned(rows)]
    return ['', f'{title}:', *lines, *([f'  and {left} more; --variables lists all variables'] if left > 0 else [])]


def _wrapped(line: str, first: str = '', others: str = '') -> list[str]:
    return textwrap.wrap(
        line, _WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )


def _mb(size: int) -> str:
    return f'{size / 1e6:,.2f} MB' if size >= 10_000 else f'{size:,} B'


def heading(found: Findings) -> str:
    return os.path.join(found.place.root, found.place.only) if found.place.only else found.place.root
