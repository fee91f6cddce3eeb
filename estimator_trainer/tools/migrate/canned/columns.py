"""Feature columns as plain JSON, in the form that `feature_layers.py` reads."""

import contextlib

import numpy as np
import tensorflow as tf

from estimator_trainer.tools.migrate import traced


class Unsupported(ValueError):
    """Something of the Estimator has no equal. The message names it."""


def to_json(column, dtypes) -> dict | str:
    """A column without weights of its own; a string is a raw feature within a cross.

    Args:
        dtypes: {feature: tf.DType}, as the input_fn gives them.

    Raises:
        Unsupported: a column of another kind, or a normalizer_fn that reads variables or tables.
    """
    if isinstance(column, str):
        return column
    kind = type(column).__name__
    if kind not in _KINDS:
        raise Unsupported(f'{kind} {getattr(column, "name", "")}'.strip())
    return _KINDS[kind](column, dtypes)


def embedding(column, dtypes) -> dict:
    """Of an EmbeddingColumn: its categorical column, and what the layer needs beside it."""
    if not getattr(column, 'use_safe_embedding_lookup', True):
        raise Unsupported(f'embedding_column {column.name} with use_safe_embedding_lookup=False')
    return {
        'column': to_json(column.categorical_column, dtypes),
        'dimension': column.dimension,
        'combiner': column.combiner,
        'max_norm': column.max_norm,
        'trainable': column.trainable,
    }


def keys(column) -> list[str]:
    """The features that a column in JSON reads, each once."""
    if isinstance(column, str):
        return [column]
    found = [column[name] for name in ('key', 'weight_key') if name in column]
    for inner in (column.get('column'), *column.get('keys', ())):
        found += keys(inner) if inner else []
    return list(dict.fromkeys(found))


def parse_spec(feature_columns, dtypes) -> dict:
    """How the Estimator's own export reads each feature of tf.Example: {feature: {'dtype', 'shape', 'default'}}.

    The shape is None for categories, of which an example has any number; without a default a number has to be there.

    Args:
        dtypes: {feature: tf.DType}, as the input_fn gives them.
    """
    made = {}
    for column in feature_columns:
        for key, spec in tf.feature_column.make_parse_example_spec([column]).items():
            # tf.feature_column takes every feature that a cross names for text: with integers its export reads nothing.
            are_integers = key in dtypes and dtypes[key].is_integer and spec.dtype == tf.string
            fixed = isinstance(spec, tf.io.FixedLenFeature)
            made[key] = {
                'dtype': 'int64' if are_integers else spec.dtype.name,
                'shape': list(spec.shape) if fixed else None,
                'default': np.asarray(spec.default_value).tolist()
                if fixed and spec.default_value is not None
                else None,
            }
    return made


def crossed(column) -> list[str]:
    """The features that a cross in this column in JSON reads by their names."""
    if isinstance(column, str):
        return []
    names = [key for key in column.get('keys', ()) if isinstance(key, str)]
    return names + (crossed(column['column']) if 'column' in column else [])


def text(word: bytes | str, where: str) -> str:
    """A word of the vocabulary `where`, as JSON can hold it. Raises Unsupported: it is no text in UTF-8."""
    try:
        return word.decode() if isinstance(word, bytes) else word
    except UnicodeDecodeError as error:
        raise Unsupported(f'the word {word!r} in the vocabulary of {where}, which is no text in UTF-8 and') from error


def _numeric(column, dtypes):
    made = {'kind': 'numeric', 'key': column.key, 'shape': list(column.shape), 'normalizer': None}
    if column.normalizer_fn is None:
        return made
    given = dtypes.get(column.key, column.dtype)
    made['normalizer'] = _traced(column, given)
    if given.is_floating != column.dtype.is_floating:  # tf.Example has it in the column's dtype
        with contextlib.suppress(Unsupported):  # the Estimator's own export fails there, too
            made['parsed_normalizer'] = _traced(column, column.dtype)
    return made


def _traced(column, dtype):
    """A normalizer_fn as a graph: bit for bit the same, and without its source."""
    try:
        return traced.normalizer(column.normalizer_fn, [None, *column.shape], dtype)
    except ValueError as error:
        raise Unsupported(f'numeric_column {column.key!r}: its normalizer_fn: {error}') from error


def _bucketized(column, dtypes):
    return {**to_json(column.source_column, dtypes), 'kind': 'bucketized', 'boundaries': list(column.boundaries)}


def _hashed(column, dtypes):
    return {'kind': 'hash', 'key': column.key, 'buckets': column.hash_bucket_size}


def _vocabulary_list(column, dtypes):
    words = [
        text(word, column.name) if isinstance(word, (bytes, str)) else int(word) for word in column.vocabulary_list
    ]
    return _vocabulary(column, words)


def _vocabulary_file(column, dtypes):
    if column.file_format == 'tfrecord_gzip':
        lines = [record.numpy() for record in tf.data.TFRecordDataset(column.vocabulary_file, 'GZIP')]
    else:
        with tf.io.gfile.GFile(column.vocabulary_file, 'rb') as file:
            lines = file.read().split(b'\n')  # not splitlines, which knows more ends of lines than TensorFlow
        lines = [line.removesuffix(b'\r') for line in lines]
    words = [text(line, f'{column.name} ({column.vocabulary_file})') for line in lines[: column.vocabulary_size]]
    return _vocabulary(column, words if column.dtype == tf.string else [int(word) for word in words])


def _vocabulary(column, words):
    return {
        'kind': 'vocabulary',
        'key': column.key,
        'dtype': column.dtype.name,
        'num_oov_buckets': column.num_oov_buckets,
        'default_value': column.default_value,
        'vocabulary': words,
    }


def _identity(column, dtypes):
    return {
        'kind': 'identity',
        'key': column.key,
        'buckets': column.number_buckets,
        'default_value': column.default_value,
    }


def _crossed(column, dtypes):
    leaves = []
    for key in column.keys:  # a cross within a cross is one cross of all of them
        inner = to_json(key, dtypes)
        leaves += inner['keys'] if isinstance(inner, dict) and inner['kind'] == 'cross' else [inner]
    return {'kind': 'cross', 'keys': leaves, 'buckets': column.hash_bucket_size, 'hash_key': column.hash_key}


def _weighted(column, dtypes):
    return {
        'kind': 'weighted',
        'column': to_json(column.categorical_column, dtypes),
        'weight_key': column.weight_feature_key,
    }


def _indicator(column, dtypes):
    return {'kind': 'indicator', 'column': to_json(column.categorical_column, dtypes)}


_KINDS = {
    'NumericColumn': _numeric,
    'BucketizedColumn': _bucketized,
    'HashedCategoricalColumn': _hashed,
    'VocabularyListCategoricalColumn': _vocabulary_list,
    'VocabularyFileCategoricalColumn': _vocabulary_file,
    'IdentityCategoricalColumn': _identity,
    'CrossedColumn': _crossed,
    'WeightedCategoricalColumn': _weighted,
    'IndicatorColumn': _indicator,
}
