"""Hooks that read the session of a training, an evaluation or a prediction, and the tensors of its batches by name.

Touches: _primary of mirrored variables
Without it: `verify` records a variable of several replicas in a form that cannot be compared
For: `verify`

The hooks add no operation to the graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from estimator_recorder.recording import Recording

_STEP_ELEMENTS = 2**19  # that are written down of all weights after a step
_INPUT_ELEMENTS = 4096  # of a tensor of a batch
_LEAST = 256  # elements of a variable
_SIZE_OF_ZEROS = 0.01
_KEPT_BYTES = 2**30  # of the last weights, to tell how far a variable has moved


class Training(tf.compat.v1.train.SessionRunHook):
    """Records the input and the loss of every step, and the weights before the first and after some."""

    def __init__(self, recording: Recording, settings: dict[str, Any], loss: tf.Tensor, **where: Any) -> None:
        self._recording, self._settings, self._loss, self._where = recording, settings, loss, where
        self._step: Any = None  # a number, once there is a session
        self._start: Any = None
        self._recorded = None  # the last step whose weights are written down
        self._before: dict[str, Any] = {}

    def begin(self) -> None:
        self._inputs, _ = kept()
        self._global_step = tf.compat.v1.train.get_global_step()
        variables = [getattr(each, '_primary', each) for each in tf.compat.v1.global_variables()]
        self._variables = {each.name.split(':')[0]: each for each in variables}
        self._trainable = tf.compat.v1.trainable_variables()
        sizes = [each.shape.num_elements() or 0 for each in variables]
        self._most = _STEP_ELEMENTS if sum(sizes) <= _STEP_ELEMENTS else max(_LEAST, _STEP_ELEMENTS // len(sizes))
        self._keeps = sum(sizes) * 8 <= _KEPT_BYTES

    def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
        if self._step is not None:  # the session was lost and is made again
            return
        self._step = self._start = int(session.run(self._global_step))
        if self._settings['perturb'] and not self._start:
            _perturb(session, self._trainable, self._settings['perturb'])
        self._record_weights(session)

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> tf.compat.v1.train.SessionRunArgs:
        return tf.compat.v1.train.SessionRunArgs({'loss': self._loss, 'inputs': self._inputs})

    def after_run(
        self, run_context: tf.compat.v1.train.SessionRunContext, run_values: tf.compat.v1.train.SessionRunValues
    ) -> None:
        self._step += 1
        inputs = run_values.results['inputs']
        self._recording.write(
            'step',
            step=self._step,
            loss=self._recording.array(run_values.results['loss'], _INPUT_ELEMENTS),
            inputs=self._recording.arrays(inputs, _INPUT_ELEMENTS),
            rows=rows(inputs) if inputs else [],
            **self._where,
        )
        done = self._step - self._start
        if done <= 2 or done % self._settings['every'] == 0:
            self._record_weights(run_context.session)

    def end(self, session: tf.compat.v1.Session) -> None:
        if self._recorded != self._step:
            self._record_weights(session)

    def _record_weights(self, session: tf.compat.v1.Session) -> None:
        self._recorded = self._step
        if not self._recording.is_recorder():
            return
        weights = {}
        for name, variable in self._variables.items():
            value = session.run(variable)
            weights[name] = self._recording.array(value, self._most, self._before.get(name))
            if self._keeps and np.size(value) > self._most:
                self._before[name] = value
        trainable = {each.name.split(':')[0] for each in self._trainable}
        self._recording.write(
            'weights', step=self._step, variables=weights, trainable=sorted(trainable & set(weights)), **self._where
        )


def _perturb(session: tf.compat.v1.Session, variables: Iterable[tf.Variable], by: float) -> None:
    """Changes every weight by a random factor between 1 - `by` and 1 + `by`, as rounding does.

    A variable that is all zero gets what rounding would make of weights of size `_SIZE_OF_ZEROS`.
    """
    generator = np.random.RandomState(0)
    for variable in sorted(variables, key=lambda each: each.name):
        replicas = list(getattr(variable, 'values', None) or [variable])
        value = np.asarray(session.run(getattr(variable, '_primary', variable)))
        if value.dtype.kind != 'f':
            continue
        size = max(by, float(np.finfo(value.dtype).eps))
        scale = value if value.any() else _SIZE_OF_ZEROS
        changed = (value + scale * size * generator.uniform(-1, 1, value.shape)).astype(value.dtype)
        for each in replicas:
            session.run(each.initializer, {each.initializer.inputs[1]: changed})


class FirstBatch(tf.compat.v1.train.SessionRunHook):
    """Records the first batch of an evaluation or a prediction, and keeps its features for exported models."""

    def __init__(self, recording: Recording, keep_features: Callable[[Any], None], **where: Any) -> None:
        self._recording, self._keep, self._where = recording, keep_features, where
        self._done = False

    def begin(self) -> None:
        self._inputs, self._features = kept()

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> tf.compat.v1.train.SessionRunArgs | None:
        if self._done or not self._inputs:
            return None
        features = self._features if _is_flat(self._features) else {}
        return tf.compat.v1.train.SessionRunArgs({'inputs': self._inputs, 'features': features})

    def after_run(
        self, run_context: tf.compat.v1.train.SessionRunContext, run_values: tf.compat.v1.train.SessionRunValues
    ) -> None:
        if self._done or not run_values.results:
            return
        self._done = True
        self._recording.write(
            'first_batch', inputs=self._recording.arrays(run_values.results['inputs'], _INPUT_ELEMENTS), **self._where
        )
        self._keep(run_values.results['features'])


def _is_flat(features: Any) -> bool:
    if isinstance(features, dict):
        return all(isinstance(each, (tf.Tensor, tf.SparseTensor)) for each in features.values())
    return isinstance(features, tf.Tensor)


_ROWS = 1024  # of a batch, that are told apart
_ATTRIBUTE = '_estimator_recorder_batches'


def keep_batch(features: Any, labels: Any) -> None:
    """Remembers what a model_fn is about to get, in its graph; with a strategy there is one batch for each replica."""
    graph = tf.compat.v1.get_default_graph()
    kept = getattr(graph, _ATTRIBUTE, [])
    setattr(graph, _ATTRIBUTE, kept)
    named = {**_named('features', features), **_named('labels', labels)}
    if kept:
        named = {f'{name} (replica {len(kept) + 1})': tensor for name, tensor in named.items()}
    kept.append((named, dict(features) if isinstance(features, dict) else features))


def kept() -> tuple[dict[str, tf.Tensor], Any]:
    """(name -> tensor of all replicas, features of the first one) of the current graph."""
    batches = getattr(tf.compat.v1.get_default_graph(), _ATTRIBUTE, [])
    named = {name: tensor for each, _ in batches for name, tensor in each.items()}
    return named, batches[0][1] if batches else None


def _named(prefix: str, value: Any) -> dict[str, tf.Tensor]:
    """The tensors in a structure. Those of a SparseTensor have the names of its components."""
    if isinstance(value, dict):
        return {name: each for key in value for name, each in _named(f'{prefix}/{key}', value[key]).items()}
    if isinstance(value, tf.SparseTensor):
        return _named(prefix, {'indices': value.indices, 'values': value.values, 'shape': value.dense_shape})
    if isinstance(value, tf.Tensor):
        graph = tf.compat.v1.get_default_graph()
        usable = value.graph is graph and graph.is_fetchable(value) and value.dtype not in (tf.resource, tf.variant)
        return {prefix: value} if usable else {}
    if isinstance(value, (list, tuple)):
        parts = list(value)
    else:
        parts = tf.nest.flatten(value, expand_composites=True)
    if len(parts) == 1 and parts[0] is value:
        return {}
    return {name: each for place, part in enumerate(parts) for name, each in _named(f'{prefix}/{place}', part).items()}


def rows(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """A digest of each example of a batch; none where the arrays do not have one row for each example."""
    columns = [np.asarray(array) for _, array in sorted(arrays.items())]
    lengths = {array.shape[0] if array.ndim else -1 for array in columns}
    if len(lengths) != 1 or -1 in lengths:
        return []
    return [
        hashlib.sha1(b'\0'.join(_bytes(array[row]) for array in columns)).hexdigest()[:12]
        for row in range(min(lengths.pop(), _ROWS))
    ]


def _bytes(value: Any) -> bytes:
    value = np.asarray(value)
    return repr(value.tolist()).encode('utf-8', 'surrogatepass') if value.dtype.kind == 'O' else value.tobytes()
