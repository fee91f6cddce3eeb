"""replica_effects: a clip between gradients and optimizer is found, and no other one is taken for it."""

import functools
import logging
from unittest import mock

import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import counted_replicas, optimizer_parts
from estimator_trainer.training import replica_effects
from tests import fakes

v1 = tf.compat.v1


def by_global_norm(gradients):
    return tf.clip_by_global_norm(gradients, 1.0)[0]


def by_norm_and_value(gradients):
    return [tf.clip_by_value(tf.clip_by_norm(gradient, 1.0), -1.0, 1.0) for gradient in gradients]


def unused(gradients):
    tf.clip_by_global_norm(gradients, 1.0)
    return gradients


def clips(clip, in_loss=tf.identity, by_tape=False):
    with tf.Graph().as_default():
        weights = v1.get_variable('w', [3])
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(in_loss(weights) ** 2)
        if by_tape:
            gradients, variables = tape.gradient(loss, [weights]), [weights]
        else:
            gradients, variables = zip(*optimizer.compute_gradients(loss))
        return replica_effects.clips([optimizer.apply_gradients(zip(clip(gradients), variables))])


@pytest.mark.parametrize('by_tape', [False, True])
@pytest.mark.parametrize(
    'clip, functions',
    [(by_global_norm, ['clip_by_global_norm']), (by_norm_and_value, ['clip_by_norm', 'clip_by_value'])],
)
def test_gradients_are_clipped(clip, functions, by_tape):
    assert clips(clip, by_tape=by_tape) == functions


@pytest.mark.parametrize('by_tape', [False, True])
def test_they_are_not(by_tape):
    def in_loss(weights):  # such as a table of embeddings with a max_norm
        return tf.clip_by_norm(tf.clip_by_value(weights, -1.0, 1.0), 1.0)

    assert clips(unused, in_loss, by_tape) == []


@pytest.mark.parametrize('computed', [True, False])
def test_gradients_that_no_optimizer_has_computed_are_warned_of(computed, caplog):
    optimizer_parts.note_gradients()
    optimizer_parts.note_gradients()  # the second time there is nothing to do
    with tf.Graph().as_default():
        weights = v1.get_variable('w', [3])
        optimizer, loss = v1.train.AdamOptimizer(0.1), tf.reduce_sum(weights**2)
        pairs = optimizer.compute_gradients(loss) if computed else [(tf.gradients(loss, weights)[0], weights)]
        train_op = optimizer.apply_gradients(pairs)
        replica_effects.warn([train_op], fakes.Plan(batches_per_step=2), None)
        replica_effects.warn(
            [train_op], fakes.Plan(batches_per_step=2, uses_parameter_servers=True), None
        )  # their mean
        replica_effects.warn([train_op], fakes.Plan(), None)
    assert caplog.text.count('a step is as large as 2 steps of one batch') == (not computed)


@pytest.mark.parametrize('model_fn, is_warned_of', [(len, True), (None, True), ('divided', False)])
def test_an_optimizer_of_keras_divides_nothing(model_fn, is_warned_of, caplog):
    optimizer_parts.note_gradients()
    with tf.Graph().as_default():
        weights = v1.get_variable('w', [3], use_resource=True)
        optimizer = tf.keras.optimizers.legacy.SGD(0.1)
        train_op = optimizer.apply_gradients([(tf.gradients(tf.reduce_sum(weights**2), weights)[0], weights)])
        model_fn = divided if model_fn == 'divided' else model_fn
        for plan in fakes.Plan(batches_per_step=2), fakes.Plan():
            replica_effects.warn([train_op], plan, model_fn)
        replica_effects.warn([train_op], fakes.Plan(batches_per_step=2, uses_parameter_servers=True), model_fn)
    assert caplog.text.count('by an optimizer of Keras, which adds up the gradients of all 2 batches') == is_warned_of
    assert caplog.text.count('steps are too small') == (not is_warned_of)  # the mean of the workers is taken already


def test_the_head_of_a_canned_estimator_divides_its_loss(caplog):
    optimizer_parts.note_gradients()
    with tf.Graph().as_default():
        v1.train.create_global_step()
        weights = v1.get_variable('w', [1, 1], use_resource=True)
        features = {'x': tf.ones([4, 1])}
        with counted_replicas.times(2):
            spec = tf.estimator.RegressionHead().create_estimator_spec(
                features,
                tf.estimator.ModeKeys.TRAIN,
                features['x'] @ weights,
                tf.zeros([4, 1]),
                tf.keras.optimizers.legacy.SGD(0.1),
                [weights],
            )
        replica_effects.warn([spec.train_op], fakes.Plan(batches_per_step=2), None)
    assert caplog.text == ''


def test_gradients_of_tensorflow_beside_those_of_an_optimizer_are_warned_of(caplog):
    optimizer_parts.note_gradients()
    for by_hand in (False, True):
        with tf.Graph().as_default():
            weights = [v1.get_variable(name, [3]) for name in 'ab']
            loss, others = tf.reduce_sum(weights[0] ** 2 * weights[1]), v1.train.AdamOptimizer(0.1)
            optimizer = v1.train.GradientDescentOptimizer(0.1)
            if by_hand:
                minimized = optimizer.minimize(loss, var_list=weights[:1])
                applied = others.apply_gradients([(tf.gradients(loss, weights[1])[0], weights[1])])
            else:  # two rates for what one of them has computed
                pairs = optimizer.compute_gradients(loss)
                minimized, applied = optimizer.apply_gradients(pairs[:1]), others.apply_gradients(pairs[1:])
            replica_effects.warn([minimized, applied], fakes.Plan(batches_per_step=2), None)
        assert caplog.text.count('a step is as large as 2 steps of one batch') == by_hand


@pytest.mark.parametrize(
    'replicas, accumulated, with_ps, words',
    [
        (1, 1, False, ''),
        (1, 4, False, 'before those of all 4 batches'),
        (2, 3, False, 'all 6 batches'),
        (1, 1, True, ''),
        (3, 1, True, 'before the mean of those of all 3 workers'),
    ],
)
def test_it_is_said_where_gradients_are_added_up(replicas, accumulated, with_ps, words, monkeypatch, caplog):
    monkeypatch.setattr(replica_effects, 'clips', lambda targets: ['clip_by_norm'])
    plan = fakes.Plan(batches_per_step=replicas * accumulated, uses_parameter_servers=with_ps)
    replica_effects.warn([], plan, None)
    assert words in caplog.text and bool(caplog.text) == bool(words)


def divided(params):
    return 5.0 / params['num_replicas']


@pytest.mark.parametrize(
    'model_fn, with_ps, is_warned_of',
    [
        (divided, False, False),
        (functools.partial(divided), False, False),
        (len, False, True),
        (divided, True, True),  # the mean of undivided gradients
        (mock.patch, False, True),
    ],
)
def test_a_model_fn_that_names_the_number_of_replicas_divides_itself(
    model_fn, with_ps, is_warned_of, monkeypatch, caplog
):
    monkeypatch.setattr(replica_effects, 'clips', lambda targets: ['clip_by_norm'])
    replica_effects.warn([], fakes.Plan(batches_per_step=2, uses_parameter_servers=with_ps), model_fn)
    assert bool(caplog.text) == is_warned_of


@pytest.mark.parametrize(
    'names, batches, is_said',
    [
        (['a/kernel:0', 'norm/moving_mean:0'], 2, True),
        (['moving_mean_1'], 4, True),
        (['norm/moving_mean:0'], 1, False),
        (['a/moving_mean/Adam:0', 'moving_means:0'], 2, False),
    ],
)
def test_what_batch_normalization_computes_over(caplog, names, batches, is_said):
    caplog.set_level(logging.INFO, 'estimator_trainer')
    replica_effects.say_batch_normalization(names, fakes.Plan(batches_per_step=batches))
    assert (f'batch normalization: where it trains, each of the {batches} batches' in caplog.text) == is_said
