"""Embeddings of tf.contrib.layers, which tf-slim does not have.

Behaviour: https://www.tensorflow.org/versions/r1.15/api_docs/python/tf/contrib/layers
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_v1 = tf.compat.v1


def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: bool | None = None,
) -> tf.Tensor:
    """The rows of the variable `embeddings` [vocab_size, embed_dim] for ids [batch, n]: [batch, n, embed_dim].

    Raises:
        ValueError: vocab_size or embed_dim is missing, and the variable is not reused.
    """
    shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
    if not (shape or reuse):
        raise ValueError(f'embed_sequence needs vocab_size and embed_dim, or reuse: {vocab_size=}, {embed_dim=}')
    with _v1.variable_scope(scope, 'EmbedSequence', [ids], reuse=reuse):
        embeddings = _variable(shape, initializer, regularizer, trainable)
        return embedding_lookup_unique(embeddings, ids) if unique else _v1.nn.embedding_lookup(embeddings, ids)


def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: bool | None = None,
) -> tf.Tensor:
    """The mean of the embeddings of each example's ids: [batch, embed_dim].

    Args:
        ids: [batch, n], a tensor or a tf.SparseTensor.
        sparse_lookup: the ids of a tensor that are 0 are left out; an example without any gets the embedding of id 0.

    Raises:
        ValueError: vocab_size or embed_dim is missing.
        TypeError: a tf.SparseTensor with sparse_lookup=False.
    """
    if not (vocab_size and embed_dim):
        raise ValueError(f'bow_encoder needs vocab_size and embed_dim: {vocab_size=}, {embed_dim=}')
    is_sparse = isinstance(ids, tf.SparseTensor)
    with _v1.variable_scope(scope, 'bow_encoder', [ids], reuse=reuse):
        embeddings = _variable([vocab_size, embed_dim], initializer, regularizer, trainable)
        if sparse_lookup:
            there = ids if is_sparse else tf.sparse.from_dense(ids)
            return safe_embedding_lookup_sparse([embeddings], there, combiner='mean', default_id=0)
        if is_sparse:
            raise TypeError('bow_encoder with sparse_lookup=False takes a tensor, and ids is a tf.SparseTensor')
        return tf.reduce_mean(_v1.nn.embedding_lookup(embeddings, ids), axis=1)


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: tf.SparseTensor,
    sparse_weights: tf.SparseTensor | None = None,
    combiner: str | None = None,
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = 'div',
    max_norm: float | None = None,
) -> tf.Tensor:
    """tf.nn.safe_embedding_lookup_sparse, whose combiner is 'mean' unless it is given."""
    return _v1.nn.safe_embedding_lookup_sparse(
        embedding_weights,
        sparse_ids,
        sparse_weights,
        combiner or 'mean',
        default_id,
        name,
        partition_strategy,
        max_norm,
    )


def embedding_lookup_unique(
    params: Any, ids: Any, partition_strategy: str = 'mod', name: str | None = None
) -> tf.Tensor:
    """tf.nn.embedding_lookup that looks each id up once."""
    with _v1.name_scope(name, 'EmbeddingLookupUnique', [params, ids]):
        ids = tf.convert_to_tensor(ids)
        different, places = tf.unique(tf.reshape(ids, [-1]))
        rows = tf.gather(_v1.nn.embedding_lookup(params, different, partition_strategy), places)
        looked_up = tf.reshape(rows, tf.concat([tf.shape(ids), tf.shape(rows)[1:]], 0))
        return tf.ensure_shape(looked_up, ids.shape.concatenate(rows.shape[1:]))


def _variable(shape: list[int] | None, initializer: Any, regularizer: Any, trainable: bool) -> Any:
    keys = _v1.GraphKeys
    collections = [keys.GLOBAL_VARIABLES, keys.MODEL_VARIABLES]
    return _v1.get_variable(
        'embeddings', shape, None, initializer, regularizer, trainable=trainable, collections=collections
    )
