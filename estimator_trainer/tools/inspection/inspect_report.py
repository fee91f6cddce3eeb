"""What was found, as text."""

import datetime
import os
from collections.abc import Iterable, Sequence

from estimator_trainer.tools.inspection import advice, kinds, layers, optimizers_of_run, roles
from estimator_trainer.tools.inspection.checkpoint import CHECKSUMS, NO_INDEX
from estimator_trainer.tools.inspection.facts import EvaluationMetrics, Export, Findings
from estimator_trainer.tools.reporting import section, table, wrapped

_ROWS = 40  # of a table, unless all are asked for
_HIGHER = ('accuracy', 'auc', 'precision', 'recall', 'f1')  # metrics of which more is better


def text(findings: Findings, everything: bool = False) -> str:
    """The report for a terminal. `everything` lists every variable."""
    lines = wrapped([sentence(findings)])
    if findings.damage:
        lines += section('Damage', findings.damage)
        if findings.best and findings.best.name != findings.place.named:
            lines += wrapped([f'The newest checkpoint that is whole is {findings.best.name}.'], '  ', '    ')
    lines += section('How this is known', [*(findings.kind.why if findings.variables else ()), *_graph_lines(findings)])
    if everything:
        lines += _table('Variables', _variable_rows(findings), None)
    else:
        lines += _table(f'Weights ({_weights(findings)})', _layer_rows(findings), _ROWS)
    lines += section('Optimizers', _optimizer_lines(findings))
    lines += _table('Checkpoints', _checkpoint_rows(findings), _ROWS)
    for export in findings.exports:
        lines += section(_export_title(export), _export_lines(export))
    lines += section('Evaluations', _evaluation_lines(findings.evaluations))
    lines += section('Run of this trainer', _own_lines(findings))
    lines += section('Notes', findings.notes)
    answers = advice.advise(findings)
    if answers:
        lines += ['', 'What can be done here:']
        for each in answers:
            lines += wrapped([f'{each.what:9} {each.answer}. {each.reason}'], '  ', '    ')
    return '\n'.join(lines)


def sentence(findings: Findings) -> str:
    """The first sentence: what the folder is."""
    kind, at = findings.kind, findings.described
    if not findings.variables:
        return _without_variables(findings)
    if at:
        subject = 'A checkpoint of ' if findings.place.only else 'A run of '
    else:
        subject = _without_checkpoint(findings)
    step = f' at step {at.step:,}' if at and at.step is not None else ''
    name = kind.name
    if kind.version == kinds.V1 and kind.family == kinds.CANNED:
        name += ' (the class of TensorFlow 1, here tf.compat.v1.estimator)'
    elif kind.version == kinds.V2:
        name += ' (the class of TensorFlow 2)'
    if findings.own:
        loop = {'estimator': ''}.get(findings.own.loop, f' with --loop={findings.own.loop}')
        canned = f', with {name},' if kind.family in (kinds.CANNED, kinds.RNN, kinds.KERAS) else ''
        name = f'this trainer{loop}, job {findings.own.job}{canned}'
    parts = _parts(findings)
    trained = joined([each.name for each in findings.optimizers])
    end = '. No checkpoint of it is whole.' if at and not findings.best else '.'
    return f'{subject}{name}{step}' + (f': {parts}' if parts else '') + (f'; {trained}' if trained else '') + end


def _without_variables(findings: Findings) -> str:
    if findings.exports:
        unread = all(each.damage for each in findings.exports)
        return 'A SavedModel whose graph cannot be read.' if unread else 'A SavedModel without variables.'
    if findings.graph:
        return 'A graph without variables, and no checkpoint that can be read.'
    return 'A model_dir without a checkpoint or a graph that can be read.'


def _without_checkpoint(findings: Findings) -> str:
    exports = findings.exports
    if findings.place.checkpoints:
        what = 'SavedModel' if exports else 'graph'
        return f'A run without a checkpoint that can be read; its {what} is of '
    if len(exports) > 1:
        return f'{len(exports)} SavedModels, the last one of '
    return 'A SavedModel of ' if exports else 'The graph, without a checkpoint that can be read, of '


def _parts(findings: Findings) -> str:
    said = []
    for part, word in ((layers.LINEAR_COLUMN, 'linear column'), (layers.DEEP_COLUMN, 'deep column')):
        number = sum(layer.part == part for layer in findings.layers)
        least = 'at least ' if part == layers.DEEP_COLUMN and not findings.columns_are_known else ''
        said += [f'{least}{count(number, word)}'] if number else []
    weights = [each.variable for each in findings.roles if each.role == roles.WEIGHT]
    hidden = layers.hidden_units(weights)
    if hidden:
        several = len(hidden) > 1
        said.append(f'hidden layer{"s" if several else ""} of {joined([str(each) for each in hidden])} units')
    if not said and weights:
        numbers = sum(layer.numbers for layer in findings.layers)
        said.append(f'{count(len(findings.layers), "layer")} of {count(numbers, "number")}')
    if findings.kind.has_classes and findings.kind.classes:
        said.append(f'{findings.kind.classes} classes')
    elif findings.kind.family == kinds.CANNED and findings.kind.width:
        said.append(f'{count(findings.kind.width, "output")}')
    return ', '.join(said)


def count(number: int, word: str) -> str:
    return f'{number:,} {word}{"" if number == 1 else "s"}'


def joined(words: Sequence[str]) -> str:
    return ' and '.join([', '.join(words[:-1]), words[-1]] if len(words) > 2 else words)


def _graph_lines(findings: Findings) -> list[str]:
    if not findings.graph:
        return []
    graph = findings.graph
    by = f' by TensorFlow {graph.version}' if graph.version else ''
    said = [f'{graph.source} holds a graph of {graph.operations:,} operations, written{by}.'.replace(', written.', '.')]
    if graph.servers:
        said.append(f'It places variables on {count(graph.servers, "parameter server")}.')
    said += [f'The graph shows: {note}.' for note in graph.notes]
    if graph.unknown:
        said.append(f'TensorFlow here does not have these operations of it: {", ".join(graph.unknown)}.')
    return said


def _weights(findings: Findings) -> str:
    numbers = sum(layer.numbers for layer in findings.layers)
    total = sum(each.bytes for each in findings.variables)
    layers_bytes = sum(layer.bytes for layer in findings.layers)
    return f'{count(numbers, "number")} in {_mb(layers_bytes)}; all variables {_mb(total)}'


def _layer_rows(findings: Findings) -> Iterable[tuple[str, ...]]:
    if not findings.layers:
        return
    yield 'name', 'what', 'shapes', 'size', 'slices', 'slots'
    slots: dict[str, list[str]] = {}
    for role in findings.roles:
        if role.role in (roles.SLOT, roles.SHADOW):
            name = role.slot or 'ExponentialMovingAverage'
            slots.setdefault(role.weight, []).append(name)
    for layer in findings.layers:
        what = f'{layer.part}: {layer.kind}' if layer.part != layers.LAYER and layer.kind else layer.kind or layer.part
        shapes = ', '.join(f'{each.name.rpartition("/")[2]} {each.shown_shape}' for each in layer.variables)
        names = dict.fromkeys(name for each in layer.variables for name in slots.get(each.name, ()))
        yield layer.name or '(top)', what, shapes or '-', _mb(layer.bytes), f'{layer.slices}', ', '.join(names) or '-'


def _variable_rows(findings: Findings) -> Iterable[tuple[str, ...]]:
    yield 'name', 'role', 'type', 'shape', 'size', 'slices'
    for each in findings.roles:
        variable = each.variable
        yield variable.name, each.role, variable.dtype, variable.shown_shape, _mb(variable.bytes), f'{variable.slices}'


def _optimizer_lines(findings: Findings) -> list[str]:
    said = []
    for each in findings.optimizers:
        slots = (
            f'slots {", ".join(each.slots)} of {count(each.weights, "weight")}, {_mb(each.bytes)}'
            if each.slots
            else 'no slots'
        )
        settings = optimizers_of_run.settings_in_words(each)
        said.append(f'{each.name}: {slots}' + (f'; {settings}' if settings else '') + '.')
    counted = {name: sum(each.role == name for each in findings.roles) for name in (roles.SHADOW, roles.SCALE)}
    if counted[roles.SHADOW]:
        said.append(f'ExponentialMovingAverage: averages of {count(counted[roles.SHADOW], "weight")}.')
    if counted[roles.SCALE]:
        values = findings.described.settings if findings.described else {}
        scales = [
            f'{each.variable.name} {values[each.variable.name]:g}'
            for each in findings.roles
            if each.role == roles.SCALE and each.variable.name in values
        ]
        said.append(f'A dynamic loss scale: {", ".join(scales)}.')
    if not said and findings.described:
        said.append('No slots are saved: the optimizer keeps none, as gradient descent does, or they were left out.')
    return said


def _checkpoint_rows(findings: Findings) -> Iterable[tuple[str, ...]]:
    if not findings.checkpoints:
        return
    yield 'name', 'step', 'written', 'size', 'form', 'state'
    for each in findings.checkpoints:
        how = 'whole' if each.checked == CHECKSUMS else 'whole by its sizes'
        state = 'no index' if each.damage == NO_INDEX else 'damaged' if each.damage else how
        newest = ', the one that `checkpoint` names' if each.name == findings.place.named else ''
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


def _evaluation_lines(every: Sequence[EvaluationMetrics]) -> list[str]:
    said = []
    for name in dict.fromkeys(each.name for each in every):
        its = [each for each in every if each.name == name]
        last = its[-1]
        metrics = ', '.join(f'{key} {value:.4g}' for key, value in sorted(last.metrics.items()))
        said.append(f'{name}: {count(len(its), "evaluation")}; the last one at step {last.step:,}: {metrics}.')
        if len(its) > 1:
            said += [f'{name}: {line}' for line in _best(its)]
    return said


def _best(every: Sequence[EvaluationMetrics]) -> Iterable[str]:
    for metric, word, choose in (('loss', 'lowest', min), *((name, 'highest', max) for name in _HIGHER)):
        having = [each for each in every if metric in each.metrics]
        if having:
            best = choose(having, key=lambda each: each.metrics[metric])
            yield f'the {word} {metric} is {best.metrics[metric]:.4g}, at step {best.step:,}.'


def _own_lines(findings: Findings) -> list[str]:
    if not findings.own:
        return []
    own, config = findings.own, findings.own.config
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


def _table(title: str, rows: Iterable[tuple[str, ...]], most: int | None) -> list[str]:
    rows = list(rows)
    if len(rows) < 2:
        return []
    left = len(rows) - 1 - most if most else 0
    rows = rows[: most + 1] if most else rows
    return [
        '',
        f'{title}:',
        *table(rows),
        *([f'  and {left} more; --variables lists all variables'] if left > 0 else []),
    ]


def _mb(size: int) -> str:
    return f'{size / 1e6:,.2f} MB' if size >= 10_000 else f'{size:,} B'


def heading(findings: Findings) -> str:
    return os.path.join(findings.place.root, findings.place.only) if findings.place.only else findings.place.root
