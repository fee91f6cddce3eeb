"""Optimizers of Estimators against those in `owned`: dense gradients and rows, step by step, bit for bit."""

import json

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.tools.migrate import optimizers_of
from tests.tools.migrate.owned_modules import keras

import estimator_optimizers  # isort: skip

legacy, v1, schedules = tf.keras.optimizers.legacy, tf.compat.v1.train, tf.keras.optimizers.schedules
R = np.random.default_rng(0)
STEPS, MIDDLE = 6, 3
DENSE, TABLE = R.normal(size=(3, 2)).astype('f4'), R.normal(size=(6, 2)).astype('f4')
GRADIENTS = R.normal(size=(STEPS, 3, 2)).astype('f4')
VALUES = R.normal(size=(STEPS, 3, 2)).astype('f4')
ROWS = np.array([[0, 2, 2], [4, 4, 4], [1, 0, 1], [5, 2, 3], [2, 2, 0], [1, 1, 2]])
L1_L2 = dict(l1_regularization_strength=0.01, l2_regularization_strength=0.02)

RULES = {
    'SGD': lambda: legacy.SGD(0.1),
    'SGD, momentum': lambda: legacy.SGD(0.1, 0.9),
    'SGD, nesterov': lambda: legacy.SGD(0.1, 0.9, True),
    'Adagrad': lambda: legacy.Adagrad(0.1, 0.3),
    'Adadelta': lambda: legacy.Adadelta(0.1, 0.9),
    'Ftrl': lambda: legacy.Ftrl(0.1),
    'Ftrl, regularized': lambda: legacy.Ftrl(0.1, -0.4, 0.2, beta=0.3, **L1_L2),
    'Ftrl, shrinkage': lambda: legacy.Ftrl(0.1, l2_shrinkage_regularization_strength=0.05),
    'Adam': lambda: legacy.Adam(0.1, 0.8),
    'Adam, amsgrad': lambda: legacy.Adam(0.1, amsgrad=True),
    'Adamax': lambda: legacy.Adamax(0.1),
    'Nadam': lambda: legacy.Nadam(0.1),
    'RMSprop': lambda: legacy.RMSprop(0.1),
    'RMSprop, centered': lambda: legacy.RMSprop(0.1, centered=True),
    'RMSprop, momentum': lambda: legacy.RMSprop(0.1, momentum=0.5),
    'RMSprop, both': lambda: legacy.RMSprop(0.1, momentum=0.5, centered=True),
    'clipnorm': lambda: legacy.Adam(0.1, clipnorm=0.7),
    'clipvalue': lambda: legacy.Adagrad(0.1, clipvalue=0.3),
    'global_clipnorm': lambda: legacy.SGD(0.1, 0.9, global_clipnorm=0.9),
    'decay': lambda: legacy.Adam(0.1, decay=0.3),
    'exponential decay': lambda: legacy.SGD(schedules.ExponentialDecay(0.1, 3, 0.7)),
    'exponential decay in stairs': lambda: legacy.SGD(schedules.ExponentialDecay(0.1, 3, 0.7, staircase=True)),
    'piecewise constant decay': lambda: legacy.Adam(schedules.PiecewiseConstantDecay([2, 4], [1.0, 0.5, 0.1])),
    'polynomial decay': lambda: legacy.Ftrl(schedules.PolynomialDecay(0.1, 4, power=2.0)),
    'polynomial decay in cycles': lambda: legacy.SGD(schedules.PolynomialDecay(0.1, 4, cycle=True)),
    'learning rate computed': lambda: legacy.Adam(v1.exponential_decay(0.1, v1.get_global_step(), 3, 0.7)),
    'V1 gradient descent': lambda: v1.GradientDescentOptimizer(0.1),
    'V1 momentum': lambda: v1.MomentumOptimizer(0.1, 0.9),
    'V1 nesterov': lambda: v1.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    'V1 Adagrad': lambda: v1.AdagradOptimizer(0.1),
    'V1 AdagradDA': lambda: v1.AdagradDAOptimizer(0.1, v1.get_global_step(), **L1_L2),
    'V1 Adadelta': lambda: v1.AdadeltaOptimizer(0.1),
    'V1 Ftrl': lambda: v1.FtrlOptimizer(0.1, beta=0.2, **L1_L2),
    'V1 Ftrl, shrinkage, names': lambda: v1.FtrlOptimizer(
        0.1, l2_shrinkage_regularization_strength=0.1, accum_name='acc'
    ),
    'V1 Adam': lambda: v1.AdamOptimizer(0.1),
    'V1 RMSProp': lambda: v1.RMSPropOptimizer(0.1),
    'V1 RMSProp, both': lambda: v1.RMSPropOptimizer(0.1, 0.8, 0.5, centered=True),
    'V1 proximal Adagrad': lambda: v1.ProximalAdagradOptimizer(0.1, **L1_L2),
    'V1 proximal gradient descent': lambda: v1.ProximalGradientDescentOptimizer(0.1, **L1_L2),
    'V1 exponential decay': lambda: v1.AdamOptimizer(v1.exponential_decay(0.1, v1.get_global_step(), 3, 0.7)),
    'V1 piecewise constant': lambda: v1.FtrlOptimizer(
        v1.piecewise_constant(v1.get_global_step(), [2, 4], [3.0, 2.0, 1.0])
    ),
}
# TensorFlow rewrites divisions by constants in a graph, in the light of what is around them: a learning rate that is
# computed with some differs by a few roundings.
NEARLY = {
    'inverse time decay': lambda: legacy.RMSprop(schedules.InverseTimeDecay(1.0, 3, 0.7)),
    'cosine decay': lambda: legacy.Adagrad(schedules.CosineDecay(0.1, 5, alpha=0.1)),
    'cosine decay after a warm-up': lambda: legacy.SGD(
        schedules.CosineDecay(0.0, 3, warmup_target=0.2, warmup_steps=2)
    ),
    'V1 cosine decay': lambda: v1.AdagradOptimizer(v1.cosine_decay(0.3, v1.get_global_step(), 5)),
}


def trained_by_the_original(make):
    """(description, [all variables by name after each step]), in a graph as an Estimator's."""
    with tf.Graph().as_default():
        step = v1.get_or_create_global_step()
        variables = [tf.compat.v1.get_variable(name, initializer=value) for name, value in (('d', DENSE), ('t', TABLE))]
        gradient, values = (tf.compat.v1.placeholder(tf.float32, [3, 2]) for _ in range(2))
        rows = tf.compat.v1.placeholder(tf.int64, [3])
        pairs = list(zip([gradient, tf.IndexedSlices(values, rows, TABLE.shape)], variables))
        optimizer = make()
        description = optimizers_of.description(optimizer)
        if isinstance(optimizer, legacy.Optimizer):
            optimizer.iterations = step
            with tf.name_scope('training'):
                train = optimizer.apply_gradients(pairs)
        else:
            train = optimizer.apply_gradients(pairs, global_step=step)
        after = []
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            everything = {v.op.name: v for v in tf.compat.v1.global_variables()}
            for i in range(STEPS):
                session.run(train, {gradient: GRADIENTS[i], rows: ROWS[i], values: VALUES[i]})
                after.append(session.run(everything))
    return description, after


def ours(description, checkpoint=None):
    """(Our optimizer, {name: variable} that it is built for), restored from the original's checkpoint."""
    optimizer = getattr(estimator_optimizers, description['class']).from_config(json_copy(description['config']))
    optimizer = keras.optimizers.deserialize(json_copy(keras.optimizers.serialize(optimizer)))
    start = checkpoint or {'d': DENSE, 't': TABLE}
    variables = {name: keras.Variable(start[name], name=name) for name in 'dt'}
    optimizer.build(list(variables.values()))
    if checkpoint:
        for name, variable in state(optimizer, variables, description).items():
            variable.assign(checkpoint[name])
    return optimizer, variables


def json_copy(config):
    return json.loads(json.dumps(config))


def state(optimizer, variables, description):
    """{name in the checkpoint of the original: our variable}."""
    found = {name: getattr(optimizer, attribute) for attribute, name in description['scalars'].items()}
    for slot, name in description['slots'].items():
        found.update({name.format(variable=v): optimizer.slot(slot, variables[v]) for v in variables})
    return {**found, **variables}


def roundings(found, wanted):
    """How many float32 numbers lie between the two, at most."""
    if wanted.dtype != np.float32:
        assert np.array_equal(found, wanted)
        return 0
    return int(np.max(np.abs(found.view('i4').astype('i8') - wanted.view('i4').astype('i8'))))


def worst(description, after, first):
    optimizer, variables = ours(description, after[first - 1] if first else None)
    compared = state(optimizer, variables, description)

    @tf.function
    def train(gradient, rows, values):
        optimizer.apply([gradient, tf.IndexedSlices(values, rows, TABLE.shape)], list(variables.values()))

    most = 0
    for i in range(first, STEPS):
        train(GRADIENTS[i], ROWS[i], VALUES[i])
        for name, variable in compared.items():
            most = max(most, roundings(variable.numpy(), after[i][name]))
    # Nothing of the original's state is left out, its settings apart.
    settings = {'learning_rate', 'decay', 'momentum', 'rho', 'beta', 'beta_1', 'beta_2', 'learning_rate_power', *L1_L2}
    assert {name for name in after[0] if name.split('/')[-1] not in settings or '/d/' in name or '/t/' in name} == (
        set(compared)
    )
    assert np.all(after[-1]['d'] != DENSE)
    return most


@pytest.mark.parametrize('make', RULES.values(), ids=RULES)
def test_same_steps(make):
    description, after = trained_by_the_original(make)
    assert worst(description, after, 0) == 0
    assert worst(description, after, MIDDLE) == 0  # continues from the original's slots


@pytest.mark.parametrize('make', NEARLY.values(), ids=NEARLY)
def test_nearly_same_steps(make):
    description, after = trained_by_the_original(make)
    assert worst(description, after, 0) <= 8 and worst(description, after, MIDDLE) <= 8


def test_learning_rate_can_be_changed():
    description, _ = trained_by_the_original(RULES['Adagrad'])
    optimizer, variables = ours(description)
    optimizer.learning_rate = 0.0
    optimizer.apply([GRADIENTS[0], np.zeros_like(TABLE)], list(variables.values()))
    assert np.array_equal(variables['d'].numpy(), DENSE) and np.all(optimizer.slot('accumulator', variables['d']) > 0.3)


def test_accumulated_gradients_are_refused_where_they_cannot_be():
    with pytest.raises(ValueError, match='AdamOptimizer cannot accumulate gradients'):
        estimator_optimizers.AdamOptimizer(gradient_accumulation_steps=2)


def test_by_layer():
    """Each layer with the optimizer that is for it, and with this one's bounds of gradients."""
    linear = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name='linear_a')])
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name='dnn_0'), linear])
    one, other = estimator_optimizers.SGD(0.5, clipvalue=0.1), estimator_optimizers.Adagrad(0.1)
    both = estimator_optimizers.OptimizerByLayer(other, {'linear_': one})
    both = keras.optimizers.deserialize(json_copy(keras.optimizers.serialize(both)))
    model.compile(both, 'mse')
    before = model.get_weights()
    model.train_on_batch(np.ones((4, 2)), np.full((4, 1), 100.0))
    steps = [now - then for now, then in zip(model.get_weights(), before)]
    assert steps[3] == pytest.approx(0.05) and np.any(steps[0])
    assert [int(o.iterations) for o in (both, *both.optimizers)] == [1, 1, 1]
    assert [len(o.variables) for o in both.optimizers] == [4, 2]
    assert {id(v) for o in both.optimizers for v in o.variables} < {id(v) for v in both.variables}
    assert not hasattr(both, 'learning_rate')
    with pytest.raises(ValueError, match='Several optimizers are for the variable .*linear_a/kernel'):
        estimator_optimizers.OptimizerByLayer(other, {'linear_': one, 'lin': other}).build(model.trainable_variables)
