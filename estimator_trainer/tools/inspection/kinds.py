"""Which Estimator has written a checkpoint, as far as the names of its variables tell. Pure; never guesses."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from estimator_trainer.tools.inspection import roles
from estimator_trainer.tools.inspection.optimizers_of_run import Optimizer
from estimator_trainer.tools.inspection.variables import Variable

CANNED, CONTRIB, TREES, RNN, KMEANS, KERAS, OBJECTS, CUSTOM = (
    'canned', 'contrib', 'boosted trees', 'RNN', 'k-means', 'Keras', 'objects', 'custom'
)  # fmt: skip
V1, V2 = 'V1', 'V2'
_LINEAR = re.compile(r'^linear/linear_model/')
_LINEAR_CONTRIB = re.compile(r'^linear/(?!linear_model/)(?:bias_weight|[^/]+/weights?)$')
_DNN = re.compile(r'^dnn/(?:hiddenlayer_\d+|logits)/(?:kernel|bias)$')
_DNN_CONTRIB = re.compile(r'^dnn/(?:hiddenlayer_\d+|logits)/(?:weights|biases)$')
_WIDTHS = ('dnn/logits/bias', 'linear/linear_model/bias_weights', 'baseline/bias', 'dnn/logits/biases',
           'linear/bias_weight', 'rnn_model/logits/bias')  # fmt: skip
_STEMS = {('linear',): 'Linear', ('dnn',): 'DNN', ('linear', 'dnn'): 'DNNLinearCombined'}

BINARY, MULTI_CLASS, MULTI_LABEL, REGRESSION = 'binary', 'multi-class', 'multi-label', 'regression'
POISSON, SOME_REGRESSION = 'Poisson regression', 'regression or Poisson regression'
CLASS_NAMES = {BINARY: 'Classifier', MULTI_CLASS: 'Classifier', REGRESSION: 'Regressor'}  # others: Estimator


class Head(NamedTuple):
    kind: str
    why: str


class Kind(NamedTuple):
    """What has written a checkpoint.

    Attributes:
        family: one of the constants above; '' if there are no variables to tell.
        name: of the class, as far as it is certain, or words that describe it.
        version: V1 or V2 of a canned Estimator; '' if that is not certain.
        parts: 'linear', 'dnn', 'baseline', of a canned Estimator.
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
    def has_classes(self) -> bool:
        return self.head in (BINARY, MULTI_CLASS)

    @property
    def classes(self) -> int | None:
        return 2 if self.head == BINARY else self.width


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
        head: of a canned Estimator, where the graph, an export or an evaluation tells it.
        of_objects: whether tf.train.Checkpoint has written it.
        keys: of all its variables, for a checkpoint of objects.
        has_keras_folder: whether the model_dir has `keras/`, which model_to_estimator makes.
    """
    names = {weight.name for weight in weights}
    if of_objects or has_keras_folder:
        return _of_keras(keys, has_keras_folder)
    if not names:
        return Kind('', 'nothing that can be told', why=('There are no weights to tell.',))
    if any(name.startswith('boosted_trees') for name in names):
        return Kind(TREES, 'a boosted trees Estimator', why=('The variables are in the scope `boosted_trees`.',))
    if 'clusters' in names and names & {'initialized', 'cluster_centers_initialized'}:
        return Kind(KMEANS, 'KMeans', V1, why=('It has the variables `clusters` and `initialized` of KMeans.',))
    if any(name.startswith('rnn_model/') for name in names):
        return _canned(RNN, 'RNN', ('rnn',), weights, trained_by, head)
    parts = _parts(names, _LINEAR, _DNN)
    outside = [name for name in names if not re.match('(?:linear|dnn)/', name) and 'shared_embedding' not in name]
    if parts and outside:
        beside = f'It has scopes of a canned Estimator, and variables beside them: {min(outside)}.'
        return Kind(CUSTOM, 'a model_fn of its own', why=(beside,))
    if parts:
        return _canned(CANNED, _STEMS[parts], parts, weights, trained_by, head)
    if 'baseline/bias' in names:
        return _canned(CANNED, 'Baseline', ('baseline',), weights, trained_by, head)
    parts = _parts(names, _LINEAR_CONTRIB, _DNN_CONTRIB)
    if parts:
        example = min(name for name in names if _LINEAR_CONTRIB.match(name) or _DNN_CONTRIB.match(name))
        named = f'Variables are named as tf.contrib.learn names them: {example}.'
        name = f'{_STEMS[parts]} Estimator of tf.contrib.learn'
        return Kind(CONTRIB, name, '', parts, width=_width(weights), why=(named,))
    return Kind(CUSTOM, 'a model_fn of its own', why=('No scope of a canned Estimator is among the variables.',))


def _parts(names: Collection[str], linear: re.Pattern, dnn: re.Pattern) -> tuple[str, ...]:
    return tuple(part for part, pattern in (('linear', linear), ('dnn', dnn)) if any(map(pattern.match, names)))


def _canned(family, stem, parts, weights, trained_by, head) -> Kind:
    ending = CLASS_NAMES.get(head.kind, 'Estimator') if head else ''
    version, reason = _version(trained_by)
    example = next((weight.name for weight in weights if '/' in weight.name), '')
    why = [f'Variables are named as those of {stem} Estimators: {example}.']
    if head:
        why.append(f'The head is that of a {head.kind} model: {head.why}.')
        if ending != 'Estimator':
            why.append(f'{stem}Estimator with such a head has the same variables.')
    else:
        why.append('Nothing tells the head: a classifier, a regressor or an Estimator with another head.')
    why.append(reason)
    if head and head.kind == SOME_REGRESSION:
        name = f'{stem}Regressor or {stem}Estimator'
    else:
        name = f'{stem}{ending}' if ending else f'{stem}Classifier, {stem}Regressor or {stem}Estimator'
    return Kind(family, name, version, parts, head.kind if head else '', _width(weights), tuple(why))


def _version(trained_by: Sequence[Optimizer]) -> tuple[str, str]:
    styles = {each.style for each in trained_by if each.slots}
    if styles == {roles.V1}:
        return V1, 'The slots are those of tf.compat.v1.train, so it is the class of TensorFlow 1.'
    if styles == {roles.KERAS}:
        return V2, "The slots are those of Keras's optimizers, so it is the class of TensorFlow 2."
    return '', 'No slots tell whether it is the class of TensorFlow 1 or of TensorFlow 2.'


def _of_keras(keys: Collection[str], has_folder: bool) -> Kind:
    if has_folder or any(key.startswith('estimator_global_step/') for key in keys):
        why = 'The folder `keras/` is there.' if has_folder else 'The step is called `estimator_global_step`.'
        return Kind(KERAS, 'a Keras model by tf.keras.estimator.model_to_estimator', why=(why,))
    return Kind(
        OBJECTS,
        'a Keras model or tf.train.Checkpoint',
        why=('tf.train.Checkpoint has written it: it has a tree of objects.',),
    )


def _width(weights: Sequence[Variable]) -> int | None:
    shapes = {weight.name: weight.shape for weight in weights}
    return next((shapes[name][0] for name in _WIDTHS if shapes.get(name)), None)


def head_of_graph(names: Iterable[str]) -> str:
    """The kind of head by the operations in its scope; '' if they do not tell.

    Args:
        names: of operations below the scope `head`, such as 'predictions/logistic'.
    """
    first = {name.removeprefix('losses/').partition('/')[0] for name in names}
    predicted = {
        name.partition('predictions/')[2].partition('/')[0] for name in names if name.startswith('predictions/')
    }
    if 'logistic' in predicted or 'logistic_loss' in first and 'class_ids' in predicted:
        return BINARY
    if 'class_ids' in predicted or 'sparse_softmax_cross_entropy_loss' in first:
        return MULTI_CLASS
    if 'probabilities' in predicted or 'sigmoid_cross_entropy_loss' in first:
        return MULTI_LABEL
    if 'Exp' in predicted:
        return POISSON
    return REGRESSION if 'mean_squared_error' in first else ''


def head_of_outputs(names: Iterable[str]) -> str:
    """The kind of head by what the signature `predict` of an export gives."""
    names = set(names)
    if 'logistic' in names:
        return BINARY
    if {'class_ids', 'probabilities'} <= names:
        return MULTI_CLASS
    if {'logits', 'probabilities'} <= names:
        return MULTI_LABEL
    return REGRESSION if names == {'predictions'} else ''


def head_of_metrics(names: Iterable[str]) -> str:
    """The kind of head by the metrics of an evaluation."""
    names = set(names)
    if {'accuracy', 'auc', 'label/mean'} <= names:
        return BINARY
    if {'average_loss', 'accuracy'} <= names:
        return MULTI_CLASS
    if {'average_loss', 'auc'} <= names:
        return MULTI_LABEL
    return SOME_REGRESSION if {'average_loss', 'label/mean', 'prediction/mean'} <= names else ''
