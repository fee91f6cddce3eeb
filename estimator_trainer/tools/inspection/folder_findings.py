"""Joins what is read of a folder: which files are whole, and what the model is."""

import dataclasses
import os
from typing import NamedTuple

from estimator_trainer.run_dir import config_file, file_names
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.inspection import graph, kinds, roles, saved_files
from estimator_trainer.tools.inspection.folder import Place
from estimator_trainer.tools.inspection.graph import Graph
from estimator_trainer.tools.inspection.kinds import Head, Kind
from estimator_trainer.tools.inspection.roles import Optimizer, Role
from estimator_trainer.tools.inspection.saved_files import Checkpoint, Export
from estimator_trainer.tools.inspection.variables import Variable

ALL, NEWEST = 'all', 'newest'
LARGEST_EVENTS = 256 << 20
_MANY_METAS = 64 << 20  # a larger `.meta` is read only beside the checkpoint that is described


class EvaluationMetrics(NamedTuple):
    name: str  # of the folder that holds it
    step: int
    metrics: dict[str, float]


@dataclasses.dataclass
class Findings:
    """What a folder is: its files, and what they mean.

    Attributes:
        best: the newest checkpoint that is whole, beginning with the one that TensorFlow takes; None if none is.
        described: the checkpoint whose variables are listed: `best`, or else one whose index can be read.
        own: the folder, if it holds a run of this trainer.
        damage: a sentence for each damaged file.
        notes: what else is to be said.
        variables: of the described checkpoint, or else of the newest export.
        columns: kinds.LINEAR_COLUMN and kinds.DEEP_COLUMN -> their names, of a canned Estimator.
        columns_are_known: whether a graph names the deep columns, those without variables too.
    """

    place: Place
    checkpoints: list[Checkpoint] = dataclasses.field(default_factory=list)
    best: Checkpoint | None = None
    described: Checkpoint | None = None
    graph: Graph | None = None
    exports: list[Export] = dataclasses.field(default_factory=list)
    evaluations: list[EvaluationMetrics] = dataclasses.field(default_factory=list)
    own: RunFolder | None = None
    damage: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    variables: tuple[Variable, ...] = ()
    roles: list[Role] = dataclasses.field(default_factory=list)
    optimizers: list[Optimizer] = dataclasses.field(default_factory=list)
    kind: Kind = Kind('', '')
    columns: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    columns_are_known: bool = False

    @property
    def weights(self) -> list[Variable]:
        return [each.variable for each in self.roles if each.role == roles.WEIGHT]

    @property
    def moving_averages(self) -> int:
        return sum(each.role == roles.MOVING for each in self.roles)


def inspect(place: Place, verify: str) -> Findings:
    """Reads everything in a place, and says what it is.

    Raises:
        OSError, checkpoint_errors.CannotReadCheckpoint: the operating system does not let us read a file now.
    """
    findings = Findings(place)
    _read_checkpoints(findings, verify)
    _read_graphs(findings)
    if not place.only:
        _read_exports(findings, verify)
        _read_records(findings)
    _describe(findings)
    return findings


def _read_checkpoints(findings: Findings, verify: str) -> None:
    run, files, named = findings.place.run, findings.place.checkpoints, findings.place.run.pointer.name
    newest = named if named in files else next(reversed(files), '')
    if not findings.place.only:
        if findings.place.has_torn_pointer:
            findings.damage.append('The file `checkpoint` is empty, was cut short or is not text of TensorFlow.')
        if named and named not in files:
            findings.damage.append(f'The file `checkpoint` names {named}, which is not there.')
        if findings.place.elsewhere:
            text = f'The file `checkpoint` names {findings.place.elsewhere}, in another folder. TensorFlow looks there.'
            findings.notes.append(text)
    for name in files:
        checksums = verify == ALL or verify == NEWEST and name == newest
        try:
            saved = saved_files.read_checkpoint(run.path, name, files[name], checksums)
            for each in files[name] if saved.damage else ():
                os.stat(run.file(each))  # a run that goes on removes old ones
        except FileNotFoundError:
            findings.notes.append(f'{name} was removed while it was read.')
            continue
        findings.checkpoints.append(saved)
        if saved.damage == saved_files.NO_INDEX and name != named:
            findings.notes.append(f'{name} has no index: its writer did not finish it, or the index was removed.')
        elif saved.damage:
            findings.damage.append(f'{name}: {saved.damage}.')
    in_order = sorted(reversed(findings.checkpoints), key=lambda each: each.name != newest)
    findings.best = next((each for each in in_order if not each.damage), None)
    findings.described = findings.best or next((each for each in in_order if each.variables), None)


def _read_graphs(findings: Findings) -> None:
    """Reads the graph of the described checkpoint, or else another one's; and looks for damage in all of them."""
    run, described, graphs = findings.place.run, findings.described, {}
    for each in findings.checkpoints:
        name = f'{each.name}.meta'
        if name in findings.place.checkpoints[each.name]:
            if each is described or os.path.getsize(run.file(name)) <= _MANY_METAS:
                graphs[each.name] = _read_graph(findings, name)
    has_text = file_names.GRAPH in run.entries and not findings.place.only
    text = _read_graph(findings, file_names.GRAPH) if has_text else None
    of_described = graphs.get(described.name) if described else None
    findings.graph = next(filter(None, (of_described, *reversed(graphs.values()), text)), None)


def _read_graph(findings: Findings, name: str) -> Graph | None:
    try:
        return graph.read(findings.place.run.file(name))
    except graph.TooLarge as error:
        findings.notes.append(f'{name} is not read: {error}.')
    except ValueError as error:
        findings.damage.append(f'{name}: {error}.')
    return None


def _read_exports(findings: Findings, verify: str) -> None:
    for path in findings.place.run.saved_models:
        try:
            export = saved_files.read_saved_model(findings.place.run.path, path, verify == ALL)
        except FileNotFoundError:
            findings.notes.append(f'{_at(path)} was removed while it was read.')
            continue
        findings.exports.append(export)
        findings.damage += [f'{_at(path)}: {export.damage}.'] if export.damage else []


def _read_records(findings: Findings) -> None:
    """Reads what the run says of itself: its evaluations, and config.json if this trainer has written it."""
    run = findings.place.run
    for folder in run.evaluation_folders:
        metrics, problems = run.measured(folder, LARGEST_EVENTS)
        findings.evaluations += [EvaluationMetrics(folder, *each) for each in metrics.items()]
        findings.notes += problems
    if config_file.KEYS <= run.config.keys():
        findings.own = run
        aside = sum(each.is_damaged for each in run.checkpoints)
        if aside:
            number = f'{aside} checkpoint{"" if aside == 1 else "s"}'
            findings.notes.append(f'{file_names.DAMAGED}/ holds {number} that the trainer has set aside.')
    findings.damage += [each for each in run.problems if 'it holds no object' not in each]  # that is another program's


def _describe(findings: Findings) -> None:
    """Works out what the variables mean."""
    inside, at, run = findings.graph, findings.described, findings.place.run
    of_export = next((each for each in reversed(findings.exports) if each.variables), None)
    source = at or of_export
    findings.variables = source.variables if source else ()
    findings.roles = roles.roles(findings.variables)
    applied = inside.applied if inside and (at or not of_export) else {}
    findings.optimizers = roles.optimizers(findings.roles, at.settings if at else {}, applied)
    findings.kind = kinds.kind(
        findings.weights,
        findings.optimizers,
        _head(findings),
        bool(source and source.of_objects),
        {each.key for each in findings.variables if each.key},
        os.path.isfile(run.file(f'keras/{file_names.POINTER}')),
    )
    columns = inside.deep_columns if inside else of_export.deep_columns if of_export else ()
    findings.columns = kinds.columns(findings.weights, findings.kind, columns)
    findings.columns_are_known = bool(columns)


def _head(findings: Findings) -> Head | None:
    graphs = [(findings.graph.source, findings.graph)] if findings.graph else []
    graphs += [(f'the graph of {_at(each.path)}', each) for each in reversed(findings.exports)]
    heads = (Head(kind, f'{where} has its operations') for where, each in graphs if (kind := kinds.head_of(each.head)))
    return next(heads, None)


def _at(path: str) -> str:
    return 'saved_model.pb' if path == '.' else path
