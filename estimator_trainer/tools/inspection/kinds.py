"""Which Estimator has written a checkpoint, as far as the names of its variables tell. Pure; never guesses."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from estimator_trainer.tools.inspection import roles
from estimator_trainer.tools.inspection.roles import Optimizer
from estimator_trainer.tools.inspection.variables import Variable

CANNED, CONTRIB, TREES, RNN, KMEANS, KERAS, OBJECTS, CUSTOM = (
    'canned', 'contrib', 'boosted trees', 'RNN', 'k-means', 'Keras', 'objects', 'custom'
)  # fmt: skip
V1, V2 = 'V1', 'V2'
LINEAR_COLUMN, DEEP_COLUMN = 'linear column', 'deep column'
BINARY, MULTI_CLASS, MULTI_LABEL, REGRESSION = 'binary', 'multi-class', 'multi-label', 'regression'
POISSON = 'Poisson regression'
IN_HEAD = re.compile(r'(?:^|/)head/(?:losses/)?((?:predictions/)?[^/]+)')  # an operation of a head, by what it computes

_HEADS = (  # operations that are all there -> the head; the first one counts
    ({'predictions/logistic'}, BINARY),
    ({'predictions/class_ids', 'logistic_loss'}, BINARY),
    ({'predictions/class_ids'}, MULTI_CLASS),
    ({'sparse_softmax_cross_entropy_loss'}, MULTI_CLASS),
    ({'predictions/probabilities'}, MULTI_LABEL),
    ({'sigmoid_cross_entropy_loss'}, MULTI_LABEL),
    ({'predictions/Exp'}, POISSON),
    ({'mean_squared_error'}, REGRESSION),
)
_CLASS_NAMES = {  # the head -> the class, after its stem
    BINARY: '{0}Classifier',
    MULTI_CLASS: '{0}Classifier',
    REGRESSION: '{0}Regressor',
    '': '{0}Classifier, {0}Regressor or {0}Estimator',
}
_PARTS = {  # of a canned Estimator -> a variable of it
    'linear': re.compile('linear/linear_model/'),
    'dnn': re.compile(r'dnn/(?:hiddenlayer_\d+|logits)/(?:kernel|bias)$'),
    'baseline': re.compile('baseline/bias$'),
    'rnn': re.compile('rnn_model/'),
}
_STEMS = {
    ('linear',): 'Linear',
    ('dnn',): 'DNN',
    ('linear', 'dnn'): 'DNNLinearCombined',
    ('baseline',): 'Baseline',
    ('rnn',): 'RNN',
}
_OF_PARTS = re.compile(r'(?:linear|dnn|baseline|rnn_model|sequence_features)/|.*shared_embedding')
_OTHERS = (  # family, name, patterns of which each has a variable, the evidence
    (TREES, 'a boosted trees Estimator', ('boosted_trees',), 'The variables are in the scope `boosted_trees`.'),
    (
        KMEANS,
        'KMeans',
        ('clusters$', '(?:cluster_centers_)?initialized$'),
        'It has the variables `clusters` and `initialized` of KMeans.',
    ),
    (
        CONTRIB,
        'an Estimator of tf.contrib.learn',
        (r'(?:linear/(?:bias_weight|[^/]+/weights?)|dnn/(?:hiddenlayer_\d+|logits)/(?:weights|biases))$',),
        'Variables are named as tf.contrib.learn names them.',
    ),
)
_VERSIONS = {
    (roles.V1,): (V1, 'The slots are those of tf.compat.v1.train, so it is the class of TensorFlow 1.'),
    (roles.KERAS,): (V2, "The slots are those of Keras's optimizers, so it is the class of TensorFlow 2."),
}
_NO_VERSION = ('', 'No slots tell whether it is the class of TensorFlow 1 or of TensorFlow 2.')
_LOGITS = re.compile(
    r'(?:dnn/logits|baseline|rnn_model/logits)/bias(?:es)?$|linear/(?:linear_model/bias_weights|bias_weight)$'
)
_COLUMNS = {
    LINEAR_COLUMN: re.compile(r'linear/(?:linear_model/)?(.+)/weights?$'),
    DEEP_COLUMN: re.compile(
        r'(?:dnn/input_from_feature_columns/(?:input_layer(?:_\d+)?/)?|sequence_features/)([^/]+)/'
    ),
}
_HIDDEN = re.compile(r'dnn/hiddenlayer_(\d+)/(?:kernel|weights)$')


class Head(NamedTuple):
    kind: str
    why: str


class Kind(NamedTuple):
    """What has written a checkpoint.

    Attributes:
        family: one of the constants above; '' if there are no variables to tell.
        name: of the class, as far as it is certain, or words that describe it.
        version: V1 or V2 of a canned Estimator; '' if that is not certain.
        parts: 'linear', 'dnn', 'baseline' or 'rnn', of a canned Estimator.
        head: its kind, or ''.
        width: of the logits.
        why: the evidence, in sentences.
    """

    family: str
    name: str
    version: str = ''
    parts: tuple[str, ...] = ()
    head: str = ''
    width: int | None = None
    why: tuple[str, ...] = ()

    @property
    def classes(self) -> int | None:
        return {BINARY: 2, MULTI_CLASS: self.width}.get(self.head)


def kind(
    weights: Sequence[Variable],
    trained_by: Sequence[Optimizer],
    head: Head | None,
    of_objects: bool = False,
    keys: Collection[str] = (),
    has_keras_folder: bool = False,
) -> Kind:
    """The kind of a checkpoint.

    Args:
        weights: the variables that belong to no optimizer.
        head: of a canned Estimator, where the graph or an export tells it.
        of_objects: whether tf.train.Checkpoint has written it.
        keys: of all its variables, for a checkpoint of objects.
        has_keras_folder: whether the model_dir has `keras/`, which model_to_estimator makes.
    """
    if has_keras_folder or any(key.startswith('estimator_global_step/') for key in keys):
        why = 'The folder `keras/` is there.' if has_keras_folder else 'The step is called `estimator_global_step`.'
        return Kind(KERAS, 'a Keras model by tf.keras.estimator.model_to_estimator', why=(why,))
    if of_objects:
        why = 'tf.train.Checkpoint has written it: it has a tree of objects.'
        return Kind(OBJECTS, 'a Keras model or tf.train.Checkpoint', why=(why,))
    names = [weight.name for weight in weights]
    if not names:
        return Kind('', 'nothing that can be told', why=('There are no weights to tell.',))
    parts = tuple(part for part, pattern in _PARTS.items() if any(map(pattern.match, names)))
    outside = [name for name in names if not _OF_PARTS.match(name)]
    if parts in _STEMS and not outside:
        return _canned(parts, weights, trained_by, head)
    for family, name, patterns, evidence in _OTHERS:
        if all(any(re.match(pattern, each) for each in names) for pattern in patterns) and not parts:
            return Kind(family, name, width=_width(weights), why=(evidence,))
    why = 'No scope of a canned Estimator is among the variables.'
    if parts and outside:
        why = f'It has scopes of a canned Estimator, and variables beside them: {min(outside)}.'
    return Kind(CUSTOM, 'a model_fn of its own', why=(why,))


def _canned(
    parts: tuple[str, ...], weights: Sequence[Variable], trained_by: Sequence[Optimizer], head: Head | None
) -> Kind:
    stem = _STEMS[parts]
    version, reason = _VERSIONS.get(tuple({each.style for each in trained_by if each.slots}), _NO_VERSION)
    why = [f'Variables are named as those of {stem} Estimators: {weights[0].name}.']
    if head:
        why.append(f'The head is that of a {head.kind} model: {head.why}.')
        if head.kind in (BINARY, MULTI_CLASS, REGRESSION):
            why.append(f'{stem}Estimator with such a head has the same variables.')
    else:
        why.append('Nothing tells the head: a classifier, a regressor or an Estimator with another head.')
    name = _CLASS_NAMES.get(head.kind if head else '', '{0}Estimator').format(stem)
    family = RNN if parts == ('rnn',) else CANNED
    return Kind(family, name, version, parts, head.kind if head else '', _width(weights), (*why, reason))


def _width(weights: Sequence[Variable]) -> int | None:
    return next((weight.shape[0] for weight in weights if weight.shape and _LOGITS.match(weight.name)), None)


def head_of(operations: Collection[str]) -> str:
    """The kind of a head by its operations, as IN_HEAD finds them in a graph; '' if they do not tell."""
    return next((head for needed, head in _HEADS if needed <= set(operations)), '')


def columns(weights: Iterable[Variable], kind: Kind, of_graph: Sequence[str]) -> dict[str, list[str]]:
    """The names of the LINEAR_COLUMN and of the DEEP_COLUMN of a canned Estimator.

    Args:
        of_graph: the deep columns as the graph names them. Those without variables are known only from it.
    """
    if kind.family not in (CANNED, CONTRIB, RNN):
        return {}
    if kind.version != V1 and all(name.endswith('_1') for name in of_graph):
        # The layer of TensorFlow 2 opens the scope of each column twice: operations of `age` are in `age_1`.
        of_graph = [name.removesuffix('_1') for name in of_graph]
    names = [weight.name for weight in weights]
    found = {part: {match[1] for match in map(pattern.match, names) if match} for part, pattern in _COLUMNS.items()}
    found[DEEP_COLUMN] |= set(of_graph)
    return {part: sorted(each) for part, each in found.items()}


def hidden_units(weights: Iterable[Variable]) -> list[int]:
    """The widths of the hidden layers of a canned Estimator."""
    widths = {int(match[1]): each.shape[-1] for each in weights if each.shape and (match := _HIDDEN.match(each.name))}
    return [widths[number] for number in sorted(widths)]
