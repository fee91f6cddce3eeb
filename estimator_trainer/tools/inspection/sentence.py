"""The first sentence of a report: what it is."""

from collections.abc import Sequence

from estimator_trainer.tools.inspection import kinds, layers, roles
from estimator_trainer.tools.inspection.folder_findings import Findings


def of(found: Findings) -> str:
    """What it is."""
    kind, at = found.kind, found.files.described
    if not found.variables:
        return _without_variables(found)
    if at:
        subject = 'A checkpoint of ' if found.place.only else 'A run of '
    else:
        subject = _without_checkpoint(found)
    step = f' at step {at.step:,}' if at and at.step is not None else ''
    name = kind.name
    if kind.version == kinds.V1 and kind.family == kinds.CANNED:
        name += ' (the class of TensorFlow 1, here tf.compat.v1.estimator)'
    elif kind.version == kinds.V2:
        name += ' (the class of TensorFlow 2)'
    if found.files.own:
        loop = {'estimator': ''}.get(found.files.own.loop, f' with --loop={found.files.own.loop}')
        canned = f', with {name},' if kind.family in (kinds.CANNED, kinds.RNN, kinds.KERAS) else ''
        name = f'this trainer{loop}, job {found.files.own.job}{canned}'
    parts = _parts(found)
    trained = joined([each.name for each in found.optimizers])
    end = '. No checkpoint of it is whole.' if at and not found.files.best else '.'
    return f'{subject}{name}{step}' + (f': {parts}' if parts else '') + (f'; {trained}' if trained else '') + end


def _without_variables(found: Findings) -> str:
    if found.files.exports:
        unread = all(each.damage for each in found.files.exports)
        return 'A SavedModel whose graph cannot be read.' if unread else 'A SavedModel without variables.'
    if found.files.graph:
        return 'A graph without variables, and no checkpoint that can be read.'
    return 'A model_dir without a checkpoint or a graph that can be read.'


def _without_checkpoint(found: Findings) -> str:
    exports = found.files.exports
    if found.place.checkpoints:
        what = 'SavedModel' if exports else 'graph'
        return f'A run without a checkpoint that can be read; its {what} is of '
    if len(exports) > 1:
        return f'{len(exports)} SavedModels, the last one of '
    return 'A SavedModel of ' if exports else 'The graph, without a checkpoint that can be read, of '


def _parts(found: Findings) -> str:
    said = []
    for part, word in ((layers.LINEAR_COLUMN, 'linear column'), (layers.DEEP_COLUMN, 'deep column')):
        number = sum(layer.part == part for layer in found.layers)
        least = 'at least ' if part == layers.DEEP_COLUMN and not found.columns_are_known else ''
        said += [f'{least}{count(number, word)}'] if number else []
    weights = [each.variable for each in found.roles if each.role == roles.WEIGHT]
    hidden = layers.hidden_units(weights)
    if hidden:
        several = len(hidden) > 1
        said.append(f'hidden layer{"s" if several else ""} of {joined([str(each) for each in hidden])} units')
    if not said and weights:
        numbers = sum(layer.numbers for layer in found.layers)
        said.append(f'{count(len(found.layers), "layer")} of {count(numbers, "number")}')
    if found.kind.has_classes and found.kind.classes:
        said.append(f'{found.kind.classes} classes')
    elif found.kind.family == kinds.CANNED and found.kind.width:
        said.append(f'{count(found.kind.width, "output")}')
    return ', '.join(said)


def count(number: int, word: str) -> str:
    return f'{number:,} {word}{"" if number == 1 else "s"}'


def joined(words: Sequence[str]) -> str:
    return ' and '.join([', '.join(words[:-1]), words[-1]] if len(words) > 2 else words)
