"""What `tf.feature_column` computes, from columns that are described as JSON.

A column is a dict with a `kind`:

    numeric     key, shape, normalizer (None or the arguments of `TracedFunction`), parsed_normalizer (the same function
                for numbers of the dtype that tf.Example has, if the input_fn gives another)
    bucketized  key, shape, normalizer, boundaries
    hash        key, buckets
    vocabulary  key, dtype, vocabulary, num_oov_buckets, default_value
    identity    key, buckets, default_value (None: values are taken as they are)
    cross       keys (names of features, or categorical columns), buckets, hash_key
    weighted    column (categorical), weight_key
    indicator   column (categorical)

`make` turns it into an object. `keys` are the features that it reads. A categorical column has `buckets` and
`ids(features)`, which is what `CategoricalColumn.get_sparse_tensors` gives: a SparseTensor of int64 and a SparseTensor
of weights or None. Sequence columns have no counterpart here.

`features` is a dict of tensors of shape [batch] or [batch, n] and of SparseTensors [batch, n]. In a dense tensor '' and
-1 mean that a value is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from traced_function import TracedFunction

_Ids = tuple[tf.SparseTensor, tf.SparseTensor | None]  # ids, and a weight for each


def make(column: dict) -> Any:
    """The object for a column's JSON. Raises ValueError for an unknown kind."""
    arguments = dict(column)
    kind = arguments.pop('kind')
    if kind not in _KINDS:
        raise ValueError(f'There is no column of kind {kind!r}; known are {", ".join(_KINDS)}.')
    return _KINDS[kind](**arguments)


class Numeric(tf.Module):
    """`numeric_column`: float32 of shape [batch, *shape]."""

    def __init__(
        self,
        key: str,
        shape: Sequence[int] = (1,),
        normalizer: dict[str, Any] | None = None,
        parsed_normalizer: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.keys = (key,)
        self.width = 1
        for size in shape:
            self.width *= size
        self._normalizer = TracedFunction(**normalizer) if normalizer else None
        self._parsed_normalizer = TracedFunction(**parsed_normalizer) if parsed_normalizer else self._normalizer

    def dense(self, features: Mapping[str, Any]) -> tf.Tensor:
        value = _feature(features, self.keys[0])
        if isinstance(value, tf.SparseTensor):
            raise ValueError(f'The numeric column {self.keys[0]!r} needs a dense tensor.')
        if self._normalizer and self._parsed_normalizer:
            is_parsed = value.dtype.is_floating != self._normalizer.dtype.is_floating
            value = self._parsed_normalizer(value) if is_parsed else self._normalizer(value)
        return tf.cast(value, tf.float32)


class Bucketized(Numeric):
    """`bucketized_column`. Each of its `width` numbers has buckets of its own."""

    def __init__(self, boundaries: Sequence[float], **numeric: Any) -> None:
        super().__init__(**numeric)
        self._boundaries = tuple(boundaries)
        self.buckets = (len(boundaries) + 1) * self.width

    def one_hot(self, features: Mapping[str, Any]) -> tf.Tensor:
        """float32 [batch, buckets]."""
        return tf.reshape(tf.one_hot(self._places(features), len(self._boundaries) + 1), [-1, self.buckets])

    def ids(self, features: Mapping[str, Any]) -> _Ids:
        buckets = tf.reshape(self._places(features), [-1, self.width])
        buckets += (len(self._boundaries) + 1) * tf.range(self.width, dtype=tf.int64)
        batch = tf.shape(buckets, out_type=tf.int64)[0]
        rows, columns = tf.meshgrid(tf.range(batch), tf.range(self.width, dtype=tf.int64), indexing='ij')
        indices = tf.stack([tf.reshape(rows, [-1]), tf.reshape(columns, [-1])], 1)
        return tf.SparseTensor(indices, tf.reshape(buckets, [-1]), tf.stack([batch, self.width])), None

    def _places(self, features: Mapping[str, Any]) -> tf.Tensor:
        # The kernel, and not keras.layers.Discretization: that one rounds boundaries and numbers differently.
        places = tf.raw_ops.Bucketize(input=self.dense(features), boundaries=self._boundaries)
        return tf.cast(places, tf.int64)


class Hash(tf.Module):
    """`categorical_column_with_hash_bucket`."""

    def __init__(self, key: str, buckets: int) -> None:
        super().__init__()
        self.keys, self.buckets = (key,), buckets

    def ids(self, features: Mapping[str, Any]) -> _Ids:
        value = _sparse(features, self.keys[0])
        text = value.values if value.dtype == tf.string else tf.strings.as_string(value.values)
        return value.with_values(tf.strings.to_hash_bucket_fast(text, self.buckets)), None


class Vocabulary(tf.Module):
    """`categorical_column_with_vocabulary_list`, and `_file` once its lines are in the list.

    An unknown value becomes one of `num_oov_buckets` ids after the vocabulary's, or `default_value`; -1 is ignored by
    whoever reads the ids.
    """

    def __init__(
        self,
        key: str,
        vocabulary: Sequence[Any],
        dtype: str = 'string',
        num_oov_buckets: int = 0,
        default_value: int = -1,
    ) -> None:
        super().__init__()
        self.keys, self.buckets = (key,), len(vocabulary) + num_oov_buckets
        self._dtype = tf.int64 if tf.as_dtype(dtype).is_integer else tf.string
        with tf.init_scope():  # a layer may be made while a graph is built
            words = tf.constant(vocabulary, self._dtype)
            entries = tf.lookup.KeyValueTensorInitializer(words, tf.range(len(vocabulary), dtype=tf.int64))
            if num_oov_buckets:
                self._table = tf.lookup.StaticVocabularyTable(entries, num_oov_buckets)
            else:
                self._table = tf.lookup.StaticHashTable(entries, default_value)

    def ids(self, features: Mapping[str, Any]) -> _Ids:
        value = _sparse(features, self.keys[0])
        words = tf.cast(value.values, tf.int64) if self._dtype == tf.int64 else value.values
        return value.with_values(self._table.lookup(words)), None


class Identity(tf.Module):
    """`categorical_column_with_identity`."""

    def __init__(self, key: str, buckets: int, default_value: int | None = None) -> None:
        super().__init__()
        self.keys, self.buckets, self._default = (key,), buckets, default_value

    def ids(self, features: Mapping[str, Any]) -> _Ids:
        value = _sparse(features, self.keys[0])
        ids = tf.cast(value.values, tf.int64)
        if self._default is not None:
            outside = (ids < 0) | (ids >= self.buckets)
            ids = tf.where(outside, tf.cast(self._default, tf.int64), ids)
        return value.with_values(ids), None


class Cross(tf.Module):
    """`crossed_column`. Of a feature that is given by its name, '' is a value like any other."""

    def __init__(self, keys: Sequence[str | dict[str, Any]], buckets: int, hash_key: int | None = None) -> None:
        super().__init__()
        self._parts = [key if isinstance(key, str) else make(key) for key in keys]
        names = [[part] if isinstance(part, str) else part.keys for part in self._parts]
        self.keys = tuple(dict.fromkeys(sum(map(list, names), [])))
        self.buckets, self._hash_key = buckets, hash_key

    def ids(self, features: Mapping[str, Any]) -> _Ids:
        parts = [_feature(features, p) if isinstance(p, str) else p.ids(features)[0] for p in self._parts]
        return tf.sparse.cross_hashed(parts, self.buckets, self._hash_key), None


class Weighted(tf.Module):
    """`weighted_categorical_column`. In dense weights 0 means missing, as its values do in a dense feature."""

    def __init__(self, column: dict[str, Any], weight_key: str) -> None:
        super().__init__()
        self._column, self._weight_key = make(column), weight_key
        self.keys, self.buckets = (*self._column.keys, weight_key), self._column.buckets

    def ids(self, features: Mapping[str, Any]) -> _Ids:
        weights = _sparse(features, self._weight_key, missing=0)
        return self._column.ids(features)[0], weights.with_values(tf.cast(weights.values, tf.float32))


class Indicator(tf.Module):
    """`indicator_column`: how often, or with which weight, each id is there."""

    def __init__(self, column: dict[str, Any]) -> None:
        super().__init__()
        self._column = make(column)
        self.keys, self.buckets = self._column.keys, self._column.buckets

    def one_hot(self, features: Mapping[str, Any]) -> tf.Tensor:
        """float32 [batch, buckets]."""
        ids, weights = self._column.ids(features)
        if weights is None:
            return tf.reduce_sum(tf.one_hot(tf.sparse.to_dense(ids, -1), self.buckets), -2)
        merged = tf.compat.v1.sparse_merge(ids, weights, self.buckets)
        merged = tf.sparse.slice(merged, [0, 0], merged.dense_shape)  # without ids of -1
        return tf.scatter_nd(merged.indices, merged.values, merged.dense_shape)


def combined(weights: tf.Variable, ids_and_weights: _Ids, combiner: str, max_norm: float | None = None) -> tf.Tensor:
    """Rows of `weights` for the ids of each example, combined: float32 [batch, columns of `weights`].

    Ids below 0 and weights of 0 or less count as missing. An example that has none gives zeros.

    Args:
        weights: a variable [buckets, n].
        found: ids and their weights, as a categorical column gives them.
        combiner: 'sum', 'mean' or 'sqrtn'.
        max_norm: the norm to which a row is cut before; None for no bound.
    """
    ids, id_weights = (s if s is None else tf.sparse.reshape(s, [tf.shape(s)[0], -1]) for s in ids_and_weights)
    return tf.nn.safe_embedding_lookup_sparse(weights, ids, id_weights, combiner=combiner, max_norm=max_norm)


def _feature(features: Mapping[str, Any], key: str) -> tf.Tensor | tf.SparseTensor:
    """The feature, [batch, 1] if it comes as [batch].

    Floating-point numbers become float32 before anything is done with them: Keras 2 did that for an Estimator's layers.
    """
    value = features[key]
    if not isinstance(value, tf.SparseTensor):
        value = tf.convert_to_tensor(value)
    if value.dtype.is_floating:
        value = tf.cast(value, tf.float32)
    if value.shape.rank != 1:
        return value
    if isinstance(value, tf.SparseTensor):
        return tf.sparse.reshape(value, [tf.shape(value)[0], 1])
    return tf.expand_dims(value, -1)


def _sparse(features: Mapping[str, Any], key: str, missing: Any = None) -> tf.SparseTensor:
    """The feature as a SparseTensor, without what means that a value is missing."""
    value = _feature(features, key)
    if isinstance(value, tf.SparseTensor):
        return value
    if missing is None:
        missing = '' if value.dtype == tf.string else -1 if value.dtype.is_integer else 0
    indices = tf.where(tf.not_equal(value, tf.cast(missing, value.dtype)))
    return tf.SparseTensor(indices, tf.gather_nd(value, indices), tf.shape(value, out_type=tf.int64))


_KINDS = {
    'numeric': Numeric,
    'bucketized': Bucketized,
    'hash': Hash,
    'vocabulary': Vocabulary,
    'identity': Identity,
    'cross': Cross,
    'weighted': Weighted,
    'indicator': Indicator,
}
