"""What is read from files: values that the rest of the package works with."""

from typing import Any, NamedTuple

from estimator_trainer.tools.inspection.variables import Variable


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
