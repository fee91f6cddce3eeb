"""What becomes of an Estimator's optimizer: names in the checkpoints of real Estimators, and what is refused."""

import pytest
import tensorflow as tf

from estimator_trainer.tools.migrate import optimizers_of

legacy, v1, schedules = tf.keras.optimizers.legacy, tf.compat.v1.train, tf.keras.optimizers.schedules
x = tf.feature_column.numeric_column('x')


def input_fn():
    return tf.data.Dataset.from_tensors(({'x': [[1.0], [2.0]]}, [[0], [1]])).repeat(2)


def checkpoint(estimator):
    """{name: shape or, of a number, its value} after two steps."""
    estimator.train(input_fn, steps=2)
    reader = tf.train.load_checkpoint(estimator.latest_checkpoint())
    return {name: shape or reader.get_tensor(name) for name, shape in reader.get_variable_to_shape_map().items()}


def described(description, variables):
    slots = [name.format(variable=v) for name in description['slots'].values() for v in variables]
    return {*slots, *description['scalars'].values()}


@pytest.mark.parametrize(
    'make',
    [
        lambda: legacy.RMSprop(0.1, centered=True, momentum=0.5),
        lambda: legacy.Nadam(0.1, name='Mine'),
        lambda: legacy.Adam(0.1, amsgrad=True),
        lambda: legacy.Adadelta(0.1),
    ],
)
def test_names_of_tf_estimator(make, tmp_path):
    found = checkpoint(tf.estimator.LinearClassifier([x], str(tmp_path), optimizer=make))
    variables = ['linear/linear_model/bias_weights', 'linear/linear_model/x/weights']
    settings = {name for name in found if name.count('/') == 2 and not name.endswith('momentum_cache')}
    assert described(optimizers_of.description(make()), variables) == set(found) - set(variables) - settings


@pytest.mark.parametrize(
    'make', [lambda: v1.RMSPropOptimizer(0.1, centered=True), lambda: v1.FtrlOptimizer(0.1, linear_name='line')]
)
def test_names_of_tf_compat_v1_estimator(make, tmp_path):
    found = checkpoint(tf.compat.v1.estimator.LinearClassifier([x], str(tmp_path), optimizer=make))
    variables = ['linear/linear_model/bias_weights', 'linear/linear_model/x/weights']
    parts = [f'{name}/part_0' for name in variables]
    assert described(optimizers_of.description(make()), parts) == set(found) - set(variables)


def test_names_of_two_optimizers_that_are_alike(tmp_path):
    first, second = legacy.Nadam(0.1), legacy.Nadam(0.2)
    found = checkpoint(
        tf.estimator.DNNLinearCombinedClassifier(
            str(tmp_path / 'v2'), [x], lambda: legacy.Nadam(0.2), [x], lambda: legacy.Nadam(0.1), [2]
        )
    )
    descriptions = optimizers_of.description(first), optimizers_of.description(second, after=first)
    learning_rates = []
    for description, variable in zip(descriptions, ('dnn/logits/kernel', 'linear/linear_model/x/weights')):
        names = described(description, [variable])
        assert names <= set(found) and found[description['scalars']['iterations']] == 2
        scope = description['scalars']['momentum_cache'].rpartition('/')[0]
        learning_rates.append(round(float(found[f'{scope}/learning_rate']), 6))
    assert learning_rates == [0.1, 0.2]

    first, second = v1.AdamOptimizer(0.1, beta1=0.5), v1.AdamOptimizer(0.1, beta1=0.25)
    found = checkpoint(
        tf.compat.v1.estimator.DNNLinearCombinedClassifier(
            str(tmp_path / 'v1'),
            [x],
            lambda: v1.AdamOptimizer(0.1, beta1=0.25),
            [x],
            lambda: v1.AdamOptimizer(0.1, beta1=0.5),
            [2],
        )
    )
    for description, power in (
        (optimizers_of.description(first), 0.5**3),
        (optimizers_of.description(second, after=first), 0.25**3),
    ):
        assert found[f'head/{description["scalars"]["beta_1_power"]}'] == power
        assert found[description['scalars']['iterations']] == 2
    assert optimizers_of.description(second, after=first)['slots'] == {'m': '{variable}/Adam', 'v': '{variable}/Adam_1'}


class Own(legacy.SGD):
    pass


class OwnSchedule(schedules.ExponentialDecay):
    pass


def with_a_variable():
    with tf.Graph().as_default():
        v1.get_or_create_global_step()
        rate = tf.compat.v1.get_variable('rate', initializer=0.1)
        return optimizers_of.description(v1.AdamOptimizer(rate * 2.0))


@pytest.mark.parametrize(
    'describe, text',
    [
        (lambda: optimizers_of.description(Own()), r'test_tf_optimizers_of\.Own has no counterpart'),
        (lambda: optimizers_of.description(tf.keras.optimizers.Adam()), r'\.Adam has no counterpart'),
        (
            lambda: optimizers_of.description(v1.SyncReplicasOptimizer(v1.AdamOptimizer(), 1)),
            'SyncReplicasOptimizer has',
        ),
        (lambda: optimizers_of.description(legacy.SGD(lambda: 0.1)), 'learning_rate of SGD is <function'),
        (lambda: optimizers_of.description(legacy.SGD(0.1, momentum=lambda: 0.1)), 'momentum of SGD is <function'),
        (lambda: optimizers_of.description(v1.AdamOptimizer(lambda: 0.1)), 'learning_rate of AdamOptimizer is'),
        (lambda: optimizers_of.description(v1.AdamOptimizer(tf.Variable(0.1))), 'learning_rate of AdamOptimizer is'),
        (lambda: optimizers_of.description(legacy.SGD(OwnSchedule(0.1, 2, 0.5))), 'the learning rate OwnSchedule'),
        (lambda: optimizers_of.description(legacy.SGD(0.1, clipnorm=1.0, clipvalue=1.0)), 'clipnorm and clipvalue'),
        (
            lambda: optimizers_of.description(legacy.SGD(schedules.ExponentialDecay(0.1, 2, 0.5), decay=0.1)),
            'a schedule of its learning rate and `decay`',
        ),
        (
            lambda: optimizers_of.description(legacy.SGD(gradient_transformers=[lambda pairs: pairs])),
            'gradient_transformers',
        ),
        (lambda: optimizers_of.description(v1.AdagradDAOptimizer(0.1, tf.Variable(3))), 'is not the global step'),
        (with_a_variable, r'The learning rate mul:0 depends on more than its argument: .* \(VarHandleOp\)'),
    ],
)
def test_what_cannot_be_taken_along_is_named(describe, text):
    with pytest.raises(ValueError, match=text):
        describe()
