"""Feature columns as plain JSON, in the form that `feature_layers.py` reads."""

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


def _numeric(column, dtypes):
    normalizer = None
    if column.normalizer_fn is not None:
        normalizer = _traced(column, dtypes.get(column.key, column.dtype))
    return {'kind': 'numeric', 'key': column.key, 'shape': list(column.shape), 'normalizer': normalizer}


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
    words = [word.decode() if isinstance(word, bytes) else word for word in column.vocabulary_list]
    return _vocabulary(column, [word if isinstance(word, str) else int(word) for word in words])


def _vocabulary_file(column, dtypes):
    with tf.io.gfile.GFile(column.vocabulary_file, 'rb') as file:
        lines = file.read().decode().split('\n')  # not splitlines, which knows more ends of lines than TensorFlow
    words = [line.removesuffix('\r') for line in lines][: column.vocabulary_size]
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
