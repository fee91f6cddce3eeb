"""tf.contrib.crf: a linear-chain conditional random field.

Behaviour: https://www.tensorflow.org/versions/r1.15/api_docs/python/tf/contrib/crf

Shapes: inputs and potentials [batch, time, tags], tag indices [batch, time], lengths [batch], transitions [tags, tags]
from tag to tag. Scores and likelihoods are [batch].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def crf_log_likelihood(
    inputs: tf.Tensor, tag_indices: tf.Tensor, sequence_lengths: tf.Tensor, transition_params: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """(log likelihood of the tags, transitions). Transitions that are not given become the variable `transitions`."""
    inputs = tf.convert_to_tensor(inputs)
    if transition_params is None:
        tags = int(inputs.shape[2])
        transition_params = v1.get_variable('transitions', [tags, tags])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def crf_sequence_score(
    inputs: tf.Tensor, tag_indices: tf.Tensor, sequence_lengths: tf.Tensor, transition_params: tf.Tensor
) -> tf.Tensor:
    """The unnormalized score of the tags; 0 for a sequence without steps."""
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def crf_unary_score(tag_indices: tf.Tensor, sequence_lengths: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """The part of the score that the inputs give."""
    chosen = tf.gather(inputs, tag_indices, axis=2, batch_dims=2)
    return tf.reduce_sum(chosen * _mask(sequence_lengths, tf.shape(inputs)[1], inputs.dtype), axis=1)


def crf_binary_score(tag_indices: tf.Tensor, sequence_lengths: tf.Tensor, transition_params: tf.Tensor) -> tf.Tensor:
    """The part of the score that the transitions give."""
    pairs = tf.stack([tag_indices[:, :-1], tag_indices[:, 1:]], axis=2)
    steps = tf.gather_nd(transition_params, pairs)
    mask = _mask(tf.maximum(sequence_lengths - 1, 0), tf.shape(steps)[1], steps.dtype)
    return tf.reduce_sum(steps * mask, axis=1)


def crf_log_norm(inputs: tf.Tensor, sequence_lengths: tf.Tensor, transition_params: tf.Tensor) -> tf.Tensor:
    """log of the sum of exp(score) over all tags; 0 for a sequence without steps."""
    alphas = _scan(inputs, transition_params, lambda scores: tf.reduce_logsumexp(scores, axis=1))
    last = _at_end(alphas, sequence_lengths)
    return tf.where(sequence_lengths > 0, tf.reduce_logsumexp(last, axis=1), tf.zeros_like(last[:, 0]))


def crf_decode(
    potentials: tf.Tensor, transition_params: tf.Tensor, sequence_length: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """(the best tags [batch, time] int32, 0 behind each end; their scores)."""
    potentials = tf.convert_to_tensor(potentials)
    lengths = tf.cast(sequence_length, tf.int32)
    best = _scan(potentials, transition_params, lambda scores: tf.reduce_max(scores, axis=1))  # [time, batch, tags]
    last = _at_end(best, tf.maximum(lengths, 1))
    last_tag = tf.argmax(last, axis=1, output_type=tf.int32)
    # Which tag led to each: [time, batch, tags]. None leads to the first, but tf.scan takes no empty tensor.
    origins = tf.argmax(best[:-1, :, :, None] + transition_params, axis=2, output_type=tf.int32)
    origins = tf.concat([tf.zeros_like(best[:1], tf.int32), origins], axis=0)
    steps = tf.range(tf.shape(origins)[0])

    def before(tag: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """The tag of the step before `step`, from the tag at `step`; unchanged behind the end."""
        origin = tf.gather(origins[step], tag, axis=1, batch_dims=1)
        return tf.where(step < lengths, origin, tag)

    tags = tf.scan(before, steps, last_tag, reverse=True)[1:]
    tags = tf.transpose(tf.concat([tags, last_tag[None]], axis=0))
    return tags * _mask(lengths, tf.shape(tags)[1], tags.dtype), tf.reduce_max(last, axis=1)


def viterbi_decode(score: np.ndarray, transition_params: np.ndarray) -> tuple[list[int], float]:
    """In NumPy, for one sequence: (list of the best tags, their score). score: [time, tags]."""
    score, transition_params = np.asarray(score), np.asarray(transition_params)
    best, origins = score[0], []
    for step in score[1:]:
        scores = best[:, None] + transition_params
        origins.append(scores.argmax(axis=0))
        best = step + scores.max(axis=0)
    tags = [int(best.argmax())]
    for origin in reversed(origins):
        tags.append(int(origin[tags[-1]]))
    return tags[::-1], best.max()


def _scan(inputs: tf.Tensor, transition_params: tf.Tensor, reduce: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """The forward pass [time, batch, tags]; `reduce` folds [batch, from, to] over where a path comes from."""
    inputs = tf.transpose(inputs, [1, 0, 2])

    def step(alphas: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        return scores + reduce(alphas[:, :, None] + transition_params)

    following = tf.concat([inputs[1:], tf.zeros_like(inputs[:1])], axis=0)  # tf.scan takes no empty tensor
    return tf.concat([inputs[:1], tf.scan(step, following, inputs[0])[:-1]], axis=0)


def _at_end(series: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """What stands in [time, batch, tags] at each sequence's last step."""
    lengths = tf.cast(lengths, tf.int32)
    return tf.gather_nd(series, tf.stack([tf.maximum(lengths - 1, 0), tf.range(tf.shape(lengths)[0])], axis=1))


def _mask(lengths: tf.Tensor, steps: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.sequence_mask(lengths, steps, dtype)
