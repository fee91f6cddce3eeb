"""What an exported model looks like, and what its signatures answer to a batch of the program's own input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from estimator_recorder.recording import text_of

if TYPE_CHECKING:
    from estimator_recorder.recording import Recording

_EXAMPLES = 8
_ELEMENTS = 4096


def read(path: str | bytes, features: Any, recording: Recording) -> dict[str, dict[str, Any]]:
    """`signatures`, by name; `answers` of those that could be called; `not_called`: why not."""
    path = path.decode() if isinstance(path, bytes) else path
    signatures, answers, not_called = {}, {}, {}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        try:
            loaded = tf.compat.v1.saved_model.loader.load(session, ['serve'], path)
        except Exception as error:  # it is exported for training alone, or in a form of the program's own
            return {'signatures': {}, 'answers': {}, 'not_called': {'': text_of(error)}}
        for name, signature in sorted(loaded.signature_def.items()):
            signatures[name] = _described(signature)
            try:
                feed = _feed(signature.inputs, features)
                outputs = {key: info.name for key, info in signature.outputs.items()}
                answers[name] = recording.arrays(session.run(outputs, feed), _ELEMENTS)
            except Exception as error:
                not_called[name] = text_of(error)
    return {'signatures': signatures, 'answers': answers, 'not_called': not_called}


def _described(signature: Any) -> dict[str, Any]:
    return {
        'method': signature.method_name,
        'inputs': {key: _tensor(info) for key, info in signature.inputs.items()},
        'outputs': {key: _tensor(info) for key, info in signature.outputs.items()},
    }


def _tensor(info: Any) -> list[Any]:
    shape = None if info.tensor_shape.unknown_rank else [dim.size for dim in info.tensor_shape.dim]
    return [tf.dtypes.as_dtype(info.dtype).name, shape]


def _feed(inputs: Mapping[str, Any], features: Any) -> dict[str, Any]:
    """What to feed a signature with.

    Raises:
        ValueError: the features of the program do not fit its inputs.
    """
    if not (isinstance(features, dict) and features or isinstance(features, np.ndarray)):
        raise ValueError('no features of an evaluation or a prediction are known')
    if len(inputs) == 1:
        (info,) = inputs.values()
        if _tensor(info)[0] == 'string' and len(_tensor(info)[1] or [None]) == 1 and not _takes_strings(features):
            return {info.name: _serialized(features)}
        if not isinstance(features, dict) or len(features) == 1:
            value = features if not isinstance(features, dict) else next(iter(features.values()))
            return {info.name: _some(value, info)}
    if not isinstance(features, dict) or set(inputs) - set(features):
        raise ValueError(f'its inputs {", ".join(sorted(inputs))} are not the features of the program')
    return {info.name: _some(features[key], info) for key, info in inputs.items()}


def _takes_strings(features: Any) -> bool:
    """Whether the one feature is itself a string for each example, so that it need not be a serialized Example."""
    values = list(features.values()) if isinstance(features, dict) else [features]
    return (
        len(values) == 1 and isinstance(values[0], np.ndarray) and values[0].dtype.kind == 'O' and values[0].ndim == 1
    )


def _some(value: Any, info: Any) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise ValueError('a feature is sparse')
    shape = _tensor(info)[1]
    length = shape[0] if shape and shape[0] > 0 else _EXAMPLES
    return value[:length] if value.ndim else value


def _serialized(features: Any) -> list[bytes]:
    features = features if isinstance(features, dict) else {'x': features}
    count = min(_EXAMPLES, *(_length(value) for value in features.values()), 10**9)
    examples = []
    for row in range(count):
        example = tf.train.Example()
        for name, value in features.items():
            values = np.asarray(_row(value, row)).reshape(-1)
            if values.dtype.kind in 'OSU':
                example.features.feature[name].bytes_list.value.extend(tf.compat.as_bytes(each) for each in values)
            elif values.dtype.kind in 'bi':
                example.features.feature[name].int64_list.value.extend(int(each) for each in values)
            else:
                example.features.feature[name].float_list.value.extend(float(each) for each in values)
        examples.append(example.SerializeToString())
    return examples


def _length(value: Any) -> int:
    return int(value.dense_shape[0]) if hasattr(value, 'dense_shape') else len(value)


def _row(value: Any, row: int) -> Any:
    return value.values[value.indices[:, 0] == row] if hasattr(value, 'dense_shape') else value[row]
