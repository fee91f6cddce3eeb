"""Turns serialized tf.Examples into tensors, a whole batch at a time."""

import contextlib
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from estimator_trainer.data.files.spec import Feature, FileSpec
from estimator_trainer.data.files.units import Column
from estimator_trainer.errors import UsageError

Example: TypeAlias = Mapping[str, Any]  # the tf.train.Feature of each name
_TYPES = (tf.float32, tf.int64, tf.string)
_KINDS = {'float_list': 'float32', 'int64_list': 'int64', 'bytes_list': 'string'}  # of a tf.Example


class ExampleParser:
    """Parses serialized tf.Examples. It has the members of interfaces.Parser."""

    types: Sequence[tf.DType] = [tf.string]
    units: Mapping[str, Column] = {}

    def __init__(self, spec: FileSpec) -> None:
        if spec.features is None:
            raise UsageError('FileSpec.features is None, which only Parquet files allow: name the features')
        self.features = with_plain_defaults(spec.features)
        for name, feature in self.features.items():
            self._check_feature(name, feature)

    def _check_feature(self, name: str, feature: Feature) -> None:
        if feature.dtype not in _TYPES:
            types = ', '.join(dtype.name for dtype in _TYPES)
            raise UsageError(f'feature {name!r}: a tf.Example holds no {feature.dtype.name}; use {types}')

    def arranged(self, parts: list[Any], files: np.ndarray) -> tuple[list[Any], dict[int, str]]:
        """See Parser.arranged: nothing is to be done."""
        return parts, {}

    def raw(self, parts: Sequence[Any], inverse: np.ndarray) -> list[np.ndarray]:
        """See Parser.raw. There is one column: the records."""
        return [np.concatenate(parts)[inverse] if len(parts) > 1 else parts[0][inverse]]

    def parse(self, raw: Sequence[tf.Tensor]) -> dict[str, Any]:
        """See Parser.parse."""
        return tf.io.parse_example(raw[0], self.features)

    def problem(self, raw: Sequence[np.ndarray]) -> str | None:
        """See Parser.problem."""
        try:
            with _at_once():
                self.parse([tf.constant(column) for column in raw])
        except (tf.errors.OpError, UnicodeDecodeError) as error:  # a message may quote the record's bytes
            return _reason(error)
        return None

    def joined_lines(self, record: bytes, file: int) -> int:
        """See Parser.joined_lines."""
        return 0


def _at_once() -> contextlib.AbstractContextManager[Any]:
    """A context in which operations run at once, whatever graph is being built or run."""
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    from estimator_trainer.compat.patches import eager_context  # compat chooses Keras 2, which a program may not want

    return eager_context.at_once()


def with_plain_defaults(features: Mapping[str, Feature]) -> dict[str, Feature]:
    """The features with NumPy arrays in place of tensors, so that they can be used in other graphs."""
    return {
        name: feature._replace(default_value=tf.get_static_value(feature.default_value))
        if tf.is_tensor(getattr(feature, 'default_value', None))
        else feature
        for name, feature in features.items()
    }


def contradiction(features: Mapping[str, Feature], examples: Sequence[Example], most: int, spec: FileSpec) -> str:
    """How a feature of a spec contradicts all of these examples that have it, or are to have it, and more than `most`:
    the end of a message. '' if none does.
    """
    for name, feature in _by_key(features).items() if examples else ():
        held = [example[name] for example in examples if name in example and example[name].WhichOneof('kind')]
        types = [_KINDS[kind] for kind in sorted({each.WhichOneof('kind') for each in held})]
        if not types and not _may_be_absent(feature) and len(examples) > most:
            first = {other: _KINDS.get(value.WhichOneof('kind')) for other, value in sorted(examples[0].items())}
            named = ', '.join(f'{other} ({kind})' for other, kind in first.items() if kind) or 'none'
            cure = spec.cure_of_contradiction(name, absent=True)
            return f'has no feature {name!r}; its first example has {named}. {cure}'
        if len(held) <= most:
            continue
        if types and feature.dtype.name not in types:
            held_as, declared = ' and '.join(types), feature.dtype.name
            cure = spec.cure_of_contradiction(name)
            return f'has the feature {name!r} as {held_as}, and {spec.words} as {declared}. {cure}'
        if contradicts := _other_size(name, feature, held, spec):
            return contradicts
    return ''


def _other_size(name: str, feature: Feature, held: Iterable[tf.train.Feature], spec: FileSpec) -> str:
    shape = tf.TensorShape(feature.shape) if isinstance(feature, tf.io.FixedLenFeature) else None
    sizes = {len(getattr(each, kind).value) for each in held if (kind := each.WhichOneof('kind'))} - {0}
    if not shape or not sizes or not shape.is_fully_defined() or shape.num_elements() in sizes:
        return ''
    numbers = ' or '.join(map(str, sorted(sizes)))
    return (
        f'has the feature {name!r} with {numbers} value(s), and {spec.words} with the shape {shape.as_list()}, which '
        f'has {shape.num_elements()}. {spec.cure_of_contradiction(name)}'
    )


def likely_misspelt(features: Mapping[str, Feature], examples: Sequence[Example]) -> list[tuple[str, str]]:
    """Pairs of a feature of the spec that none of these examples has, and one that they have, that is not in the spec,
    and whose name is like it. A feature that may be absent would stay empty without an error."""
    features = _by_key(features)
    held = {name for example in examples for name in example}
    absent = [name for name, feature in features.items() if name not in held and _may_be_absent(feature)]
    pairs = ((name, difflib.get_close_matches(name, sorted(held - set(features)), n=1)) for name in absent)
    return [(name, close[0]) for name, close in pairs if close]


def _by_key(features: Mapping[str, Feature]) -> dict[str, Feature]:
    """The features by the names that their values have in a tf.Example."""
    return {getattr(feature, 'value_key', None) or name: feature for name, feature in features.items()}


def _may_be_absent(feature: Feature) -> bool:
    return not isinstance(feature, tf.io.FixedLenFeature) or feature.default_value is not None


def decoded(records: Iterable[bytes]) -> list[Example]:
    """The features of each of these serialized tf.Examples, without the records that are none."""
    those: list[Example] = []
    for record in records:
        with contextlib.suppress(DecodeError):
            those.append(tf.train.Example.FromString(record).features.feature)
    return those


def refuse_lists(features: Mapping[str, Feature], records: Iterable[bytes], path: str) -> None:
    """Raises UsageError if a feature of the spec is a feature list of tf.train.SequenceExamples. Read as a tf.Example,
    such a record has what its context has: the list would stay empty, in silence."""
    read = set(_by_key(features))
    for record in records if read else ():
        with contextlib.suppress(DecodeError):
            lists = read.intersection(tf.train.SequenceExample.FromString(record).feature_lists.feature_list)
            if lists:
                raise UsageError(
                    f'{path} has tf.train.SequenceExamples, with {", ".join(sorted(lists))} as feature list(s), and '
                    'the trainer reads only their context. Read the file with tf.io.parse_single_sequence_example, '
                    'in an input_fn of the job.'
                )


def message(error: Exception) -> str:
    """The message of an error of TensorFlow, which is a UnicodeDecodeError if it quotes bytes that are not UTF-8."""
    if isinstance(error, UnicodeDecodeError):
        return error.object.decode('utf-8', 'replace')
    return getattr(error, 'message', '') or str(error)


def _reason(error: Exception) -> str:
    """TensorFlow's message, without its words about the operation and without the bytes of the record."""
    text = message(error)
    text = ' '.join(text.split()).partition('}} ')[2] or ' '.join(text.split())
    text = text.partition(' [Op:')[0].partition(', value:')[0]
    return text.removeprefix('Name: <unknown>, ')[:300]
