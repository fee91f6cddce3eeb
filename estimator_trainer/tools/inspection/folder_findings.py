"""Joins what is read of a folder: which files are whole, what the model is, and what can be done with it."""

import glob
import os
from collections.abc import Collection, Sequence
from typing import NamedTuple

from estimator_trainer.run_dir import file_names
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.inspection import (
    advice,
    checkpoint,
    columns_of_run,
    graph,
    kinds,
    layers,
    optimizers_of_run,
    roles,
    run_records,
    saved_models,
)
from estimator_trainer.tools.inspection.facts import Checkpoint, EvaluationMetrics, Export, Graph, OwnRun
from estimator_trainer.tools.inspection.folder import Place
from estimator_trainer.tools.inspection.variables import Variable

ALL, NEWEST, SIZES = 'all', 'newest', 'sizes'
_MANY_METAS = 64 << 20  # a larger `.meta` is read only beside the checkpoint that is described


class Files(NamedTuple):
    """What is read from files.

    Attributes:
        best: the newest checkpoint that is whole, beginning with the one that TensorFlow takes; None if none is.
        described: the checkpoint whose variables are shown: `best`, or else one whose index can be read.
        damage: a sentence for each damaged file.
        notes: what else is to be said.
    """

    checkpoints: tuple[Checkpoint, ...]
    best: Checkpoint | None
    described: Checkpoint | None
    graph: Graph | None
    exports: tuple[Export, ...]
    evaluations: tuple[EvaluationMetrics, ...]
    own: OwnRun | None
    damage: tuple[str, ...]
    notes: tuple[str, ...]


class Findings(NamedTuple):
    """What a folder is: its files, and what they mean.

    Attributes:
        variables: of the described checkpoint, or else of the newest export, or else of the graph.
        columns_are_known: whether a graph tells the deep columns, those without variables too.
    """

    place: Place
    files: Files
    variables: tuple[Variable, ...]
    roles: tuple[roles.Role, ...]
    kind: kinds.Kind
    layers: tuple[layers.Layer, ...]
    columns_are_known: bool
    optimizers: tuple[optimizers_of_run.Optimizer, ...]
    advice: tuple[advice.Advice, ...]


def inspect(place: Place, verify: str) -> Findings:
    """Reads everything in a place, and says what it is.

    Raises:
        OSError, checkpoint_errors.CannotReadCheckpoint: the operating system does not let us read a file now.
    """
    files = read(place, verify)
    inside, at = files.graph, files.described
    of_export = next((each for each in reversed(files.exports) if each.variables), None)
    source = next((each for each in (at, of_export, inside) if each), None)
    variables = source.variables if source else ()
    every = tuple(roles.roles(variables))
    trained_by = optimizers_of_run.optimizers(every, at.settings if at else {}, None if source is of_export else inside)
    weights = [each.variable for each in every if each.role == roles.WEIGHT]
    kind = kinds.kind(
        weights,
        trained_by,
        _head(inside, files.exports, files.evaluations),
        isinstance(source, Checkpoint | Export) and source.of_objects,
        {each.key for each in variables if each.key},
        place.has_keras_folder,
    )
    known = inside.columns if inside else of_export.columns if of_export else {}
    if kind.version != kinds.V1 and columns_of_run.are_numbered(known):
        known = columns_of_run.without_numbers(known)
    evidence = advice.Evidence(
        kind,
        files.best,
        place.named,
        place.elsewhere,
        len(files.checkpoints),
        files.exports,
        inside,
        files.own,
        not place.only,
        place.path.rstrip('/'),
    )
    return Findings(
        place,
        files,
        tuple(variables),
        every,
        kind,
        tuple(layers.layers(weights, kind, known)),
        any(part == 'dnn' for part, _ in known),
        tuple(trained_by),
        tuple(advice.advise(evidence)),
    )


def read(place: Place, verify: str) -> Files:
    """Reads everything in a place. Raises what `inspect` raises."""
    names = [place.only] if place.only else list(place.checkpoints)
    newest = place.named if place.named in names else names[-1] if names else ''
    checkpoints, gone = _checkpoints(
        place, names, [name for name in names if verify == ALL or verify == NEWEST and name == newest]
    )
    in_order = sorted(reversed(checkpoints), key=lambda each: each.name != newest)
    best = next((each for each in in_order if each.whole), None)
    described = best or next((each for each in in_order if each.variables), None)
    inside, damage, notes = _graph(place, described, checkpoints)
    damage = _damage(place, checkpoints) + damage
    notes = gone + notes
    aside = [each for each in RunFolder(place.root).checkpoints if each.is_damaged]
    if place.is_own and aside:
        number = f'{len(aside)} checkpoint{"" if len(aside) == 1 else "s"}'
        notes.append(f'{file_names.DAMAGED}/ holds {number} that the trainer has set aside.')
    if _in_shards(place):
        notes.append(
            f'{place.named} is of format V1 in several files, which inspect does not read. '
            'tf.train.load_checkpoint reads it.'
        )
    if place.elsewhere and not place.only:
        notes.append(f'The file `checkpoint` names {place.elsewhere}, in another folder. TensorFlow looks there.')
    if place.only:
        return Files(checkpoints, best, described, inside, (), (), None, tuple(damage), tuple(notes))
    of_exports, more = _exports(place, verify)
    notes += more
    damage += [f'{_at(each.path)}: {each.damage}.' for each in of_exports if each.damage]
    evaluations, more = run_records.evaluations(place.root, place.evaluations)
    own, problem = run_records.own_run(place.root) if place.is_own else (None, '')
    damage += [problem] if problem else []
    return Files(
        checkpoints,
        best,
        described,
        inside,
        tuple(of_exports),
        tuple(evaluations),
        own,
        tuple(damage),
        tuple([*notes, *more]),
    )


def _checkpoints(
    place: Place, names: Sequence[str], verified: Collection[str]
) -> tuple[tuple[Checkpoint, ...], list[str]]:
    """The checkpoints, and notes on those that cannot be taken for damaged: a run that goes on removes old ones."""
    checkpoints, notes = [], []
    for name in names:
        files = place.checkpoints[name]
        try:
            checkpoints.append(checkpoint.read(place.root, name, files, name in verified))
        except FileNotFoundError:
            notes.append(f'{name} was removed while it was read.')
            continue
        if checkpoints[-1].damage and not all(os.path.exists(os.path.join(place.root, each)) for each in files):
            del checkpoints[-1]
            notes.append(f'{name} was removed while it was read.')
            continue
        if checkpoints[-1].damage == checkpoint.NO_INDEX and name != place.named:
            notes.append(f'{name} has no index: its writer did not finish it, or the index was removed.')
    return tuple(checkpoints), notes


def _exports(place: Place, verify: str) -> tuple[list[Export], list[str]]:
    exports, notes = [], []
    for each in place.exports:
        try:
            exports.append(saved_models.read(place.root, each, verify == ALL))
        except FileNotFoundError:
            notes.append(f'{_at(each)} was removed while it was read.')
    return exports, notes


def _graph(place: Place, described: Checkpoint | None, read: Sequence[Checkpoint]) -> tuple[Graph | None, list, list]:
    """(the graph of the described checkpoint, or else another one's; damage; notes)."""
    graphs, damage, notes = {}, [], []
    for each in read:
        name = f'{each.name}.meta'
        path = os.path.join(place.root, name)
        if name not in place.checkpoints[each.name]:
            continue
        if each is not described and os.path.getsize(path) > _MANY_METAS:
            continue
        try:
            graphs[each.name] = graph.read_meta(path)
        except graph.TooLarge as error:
            notes.append(f'{name} is not read: {error}.')
        except ValueError as error:
            damage.append(f'{name}: {error}.')
    text = None
    if place.graph and not place.only:
        try:
            text = graph.read_text(place.graph)
        except graph.TooLarge as error:
            notes.append(f'graph.pbtxt is not read: {error}.')
        except ValueError as error:
            damage.append(f'graph.pbtxt: {error}.')
    chosen = graphs.get(described.name) if described else None
    return chosen or next(reversed(list(graphs.values())), None) or text, damage, notes


def _damage(place: Place, read: Sequence[Checkpoint]) -> list[str]:
    sentences = [f'{place.state_damage[0].upper()}{place.state_damage[1:]}.'] if place.state_damage else []
    if place.named and not place.only and place.named not in place.checkpoints and not _in_shards(place):
        sentences.append(f'The file `checkpoint` names {place.named}, which is not there.')
    unfinished = [each for each in read if each.damage == checkpoint.NO_INDEX and each.name != place.named]
    return sentences + [f'{each.name}: {each.damage}.' for each in read if each.damage and each not in unfinished]


def _in_shards(place: Place) -> bool:
    """Whether the named checkpoint is of format V1 in several files, such as `model.ckpt-5-?????-of-00002`."""
    _, mark, number = place.named.partition('-?????-of-')
    path = glob.escape(place.root) + '/' + place.named
    return bool(mark) and number.isdigit() and len(glob.glob(path)) == int(number)


def _head(
    inside: Graph | None, exports: Sequence[Export], evaluations: Sequence[EvaluationMetrics]
) -> kinds.Head | None:
    if inside and (kind := kinds.head_of_graph(inside.head)):
        return kinds.Head(kind, f'{inside.source} has its operations')
    for export in reversed(exports):
        for signature in export.signatures:
            kind = (
                kinds.head_of_outputs(each.name for each in signature.outputs) if signature.method == 'predict' else ''
            )
            if kind:
                return kinds.Head(kind, f'the signature {signature.name} of {_at(export.path)} has its outputs')
    for evaluation in reversed(evaluations):
        if kind := kinds.head_of_metrics(evaluation.metrics):
            return kinds.Head(kind, f'the evaluation of step {evaluation.step} has its metrics')
    return None


def _at(path: str) -> str:
    return 'saved_model.pb' if path == '.' else path
