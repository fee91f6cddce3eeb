"""Joins what is read of a folder: which files are whole, what the model is, and what can be done with it."""

import glob
import os
from collections.abc import Collection, Sequence

from estimator_trainer.run_dir import file_names
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.inspection import (
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
from estimator_trainer.tools.inspection.facts import Checkpoint, EvaluationMetrics, Export, Findings, Graph
from estimator_trainer.tools.inspection.folder import Place

ALL, NEWEST, SIZES = 'all', 'newest', 'sizes'
_MANY_METAS = 64 << 20  # a larger `.meta` is read only beside the checkpoint that is described


def inspect(place: Place, verify: str) -> Findings:
    """Reads everything in a place, and says what it is.

    Raises:
        OSError, checkpoint_errors.CannotReadCheckpoint: the operating system does not let us read a file now.
    """
    findings = _read(place, verify)
    inside, at = findings.graph, findings.described
    of_export = next((each for each in reversed(findings.exports) if each.variables), None)
    source = next((each for each in (at, of_export, inside) if each), None)
    findings.variables = source.variables if source else ()
    findings.roles = roles.roles(findings.variables)
    findings.optimizers = optimizers_of_run.optimizers(
        findings.roles, at.settings if at else {}, None if source is of_export else inside
    )
    weights = [each.variable for each in findings.roles if each.role == roles.WEIGHT]
    kind = findings.kind = kinds.kind(
        weights,
        findings.optimizers,
        _head(inside, findings.exports, findings.evaluations),
        isinstance(source, Checkpoint | Export) and source.of_objects,
        {each.key for each in findings.variables if each.key},
        place.has_keras_folder,
    )
    columns = inside.columns if inside else of_export.columns if of_export else {}
    if kind.version != kinds.V1 and columns_of_run.are_numbered(columns):
        columns = columns_of_run.without_numbers(columns)
    findings.layers = layers.layers(weights, kind, columns)
    findings.columns_are_known = any(part == 'dnn' for part, _ in columns)
    return findings


def _read(place: Place, verify: str) -> Findings:
    """Reads everything in a place. Raises what `inspect` raises."""
    names = [place.only] if place.only else list(place.checkpoints)
    newest = place.named if place.named in names else names[-1] if names else ''
    verified = [name for name in names if verify == ALL or verify == NEWEST and name == newest]
    checkpoints, notes = _checkpoints(place, names, verified)
    in_order = sorted(reversed(checkpoints), key=lambda each: each.name != newest)
    best = next((each for each in in_order if each.whole), None)
    described = best or next((each for each in in_order if each.variables), None)
    inside, damage, more = _graph(place, described, checkpoints)
    damage, notes = _damage(place, checkpoints) + damage, notes + more
    aside = sum(each.is_damaged for each in RunFolder(place.root).checkpoints)
    if place.is_own and aside:
        number = f'{aside} checkpoint{"" if aside == 1 else "s"}'
        notes.append(f'{file_names.DAMAGED}/ holds {number} that the trainer has set aside.')
    if _in_shards(place):
        notes.append(
            f'{place.named} is of format V1 in several files, which inspect does not read. '
            'tf.train.load_checkpoint reads it.'
        )
    if place.elsewhere and not place.only:
        notes.append(f'The file `checkpoint` names {place.elsewhere}, in another folder. TensorFlow looks there.')
    findings = Findings(place, checkpoints, best, described, inside, damage=damage, notes=notes)
    if place.only:
        return findings
    findings.exports, more = _exports(place, verify)
    notes += more
    damage += [f'{_at(each.path)}: {each.damage}.' for each in findings.exports if each.damage]
    findings.evaluations, more = run_records.evaluations(place.root, place.evaluations)
    notes += more
    findings.own, problem = run_records.own_run(place.root) if place.is_own else (None, '')
    damage += [problem] if problem else []
    return findings


def _checkpoints(place: Place, names: Sequence[str], verified: Collection[str]) -> tuple[list[Checkpoint], list[str]]:
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
    return checkpoints, notes


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
