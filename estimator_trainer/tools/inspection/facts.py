"""What is read from files: values that the rest of the package works with."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from estimator_trainer.tools.inspection.variables import Variable

if TYPE_CHECKING:  # they are made of these values
    from estimator_trainer.tools.inspection.folder import Place
    from estimator_trainer.tools.inspection.kinds import Kind
    from estimator_trainer.tools.inspection.layers import Layer
    from estimator_trainer.tools.inspection.optimizers_of_run import Optimizer
    from estimator_trainer.tools.inspection.roles import Role


class Checkpoint(NamedTuple):
    """A checkpoint and its state.

    Attributes:
        form: 'V2', 'V1' (one file, before TensorFlow 1.0) or '' if that cannot be told.
        time: of the last change of a file, in seconds since the epoch.
        damage: what is wrong, or ''.
        checked: what the absence of damage rests on: 'checksums' or 'sizes'.
        of_objects: tf.train.Checkpoint has written it, and no Saver.
    """

    name: str
    step: int | None
    form: str
    bytes: int
    time: float
    damage: str
    checked: str
    of_objects: bool = False
    variables: tuple[Variable, ...] = ()
    settings: dict[str, float] = {}  # name -> value, of the optimizer's settings that are variables

    @property
    def whole(self) -> bool:
        return not self.damage


class Graph(NamedTuple):
    """What a graph says beyond the names of variables.

    Attributes:
        source: the file.
        version: of the TensorFlow that has written it, or ''.
        applied: the class of an optimizer -> {setting: its values}; None among them is one that the graph computes.
        head: names in the scope of the head that tell which head it is.
        columns: (part, column) -> how the column makes numbers. `part` is 'linear' or 'dnn'.
        unknown: operations that the TensorFlow of this process does not have.
        servers: number of parameter servers that the graph places variables on.
        notes: other things that it shows, in plain words.
        variables: that the graph has, in place of those of a checkpoint.
    """

    source: str
    version: str
    operations: int
    applied: dict[str, dict[str, tuple[float | None, ...]]]
    head: frozenset[str]
    columns: dict[tuple[str, str], str]
    unknown: tuple[str, ...]
    servers: int
    notes: tuple[str, ...]
    variables: tuple[Variable, ...] = ()


class Tensor(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int | None, ...] | None  # None: of any rank

    def __str__(self) -> str:
        sizes = (
            'any shape' if self.shape is None else ', '.join('?' if size is None else f'{size}' for size in self.shape)
        )
        return f'{self.name}: {self.dtype} [{sizes}]'


class Signature(NamedTuple):
    name: str
    method: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


class Export(NamedTuple):
    """A SavedModel.

    Attributes:
        path: relative to the folder that is inspected; '.' is that folder itself.
        features: of the tf.Examples that it parses: name -> kind in words.
        of_objects: tf.saved_model.save has written it, as Keras does.
    """

    path: str
    version: str
    tags: tuple[str, ...]
    signatures: tuple[Signature, ...]
    features: dict[str, str]
    bytes: int
    variables: tuple[Variable, ...]
    head: frozenset[str]
    columns: dict[tuple[str, str], str]
    unknown: tuple[str, ...]
    of_objects: bool
    damage: str


class EvaluationMetrics(NamedTuple):
    name: str  # of the folder that holds it
    step: int
    metrics: dict[str, float]


class OwnRun(NamedTuple):
    """What a run of this trainer says about itself. `state` is what training.json holds, {} without that file."""

    job: str
    loop: str
    dataset: str
    command: str
    config: dict[str, Any]
    state: dict[str, Any]
    last: dict[str, Any]


@dataclasses.dataclass
class Findings:
    """What a folder is: its files, and what they mean.

    Attributes:
        best: the newest checkpoint that is whole, beginning with the one that TensorFlow takes; None if none is.
        described: the checkpoint whose variables are listed: `best`, or else one whose index can be read.
        own: what a run of this trainer says of itself; None if it is no such run.
        damage: a sentence for each damaged file.
        notes: what else is to be said.
        variables: of the described checkpoint, or else of the newest export, or else of the graph.
        columns_are_known: whether a graph names the deep columns, those without variables too.
    """

    place: 'Place'
    checkpoints: Sequence[Checkpoint] = ()
    best: Checkpoint | None = None
    described: Checkpoint | None = None
    graph: Graph | None = None
    exports: Sequence[Export] = ()
    evaluations: Sequence[EvaluationMetrics] = ()
    own: OwnRun | None = None
    damage: Sequence[str] = ()
    notes: Sequence[str] = ()
    variables: Sequence[Variable] = ()
    roles: Sequence['Role'] = ()
    kind: 'Kind | None' = None
    layers: Sequence['Layer'] = ()
    columns_are_known: bool = False
    optimizers: Sequence['Optimizer'] = ()
