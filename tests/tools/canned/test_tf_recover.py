"""What a model_fn does besides the canned function that it calls is found, and refused by name."""

import pytest
import tensorflow as tf

from estimator_trainer import compat
from estimator_trainer.tools.migrate.canned import columns, describe, recover
from estimator_trainer.tools.migrate.canned.in_keras_3 import tensors

compat.bring_up()
v1, fc = tf.compat.v1, tf.feature_column
FEATURES, LABELS = {'x': tf.constant([1.0, 2.0]), 'y': tf.constant([3.0, 4.0])}, tf.constant([0.5, 1.5])
X = [fc.numeric_column('x')]


def regressor(**arguments):
    return tf.estimator.DNNRegressor([2], X, **arguments)


def around(canned, before=lambda features, labels: (features, labels), after=lambda spec: spec):
    """An Estimator whose model_fn calls a canned one."""

    def model_fn(features, labels, mode, config):
        return after(canned.model_fn(*before(features, labels), mode, config))

    return tf.estimator.Estimator(model_fn)


def describe_it(estimator, features=FEATURES, labels=LABELS):
    return describe.description(estimator, features, labels, tensors.spec([(features, labels)])[0])


def trains_itself(spec):
    step = v1.train.AdamOptimizer(0.1).minimize(spec.loss, v1.train.get_global_step())
    return spec._replace(train_op=step)


class Clipped(v1.train.Optimizer):
    def __init__(self):
        super().__init__(False, 'clipped')
        self._inner = v1.train.AdagradOptimizer(0.1)

    def compute_gradients(self, *args, **kwargs):
        return [
            (tf.clip_by_norm(one, 0.1), variable) for one, variable in self._inner.compute_gradients(*args, **kwargs)
        ]

    def apply_gradients(self, *args, **kwargs):
        return self._inner.apply_gradients(*args, **kwargs)


def test_what_only_passes_on_is_described():
    found = describe_it(around(regressor()))
    assert found['deep']['hidden_units'] == [2] and len(found['optimizers']) == 1


@pytest.mark.parametrize(
    'make, says',
    [
        (lambda: around(regressor(), lambda features, labels: (features, labels * 2)), 'changes the labels'),
        (lambda: around(regressor(), after=trains_itself), 'an optimizer of its own'),
        (lambda: v1.estimator.DNNRegressor([2], X, optimizer=Clipped), 'Clipped leaves the update to another'),
    ],
)
def test_training_of_another_kind(make, says):
    with pytest.raises(recover.NotCanned, match=says):
        describe_it(make())


def test_an_optimizer_that_is_given_can_train_afterwards():
    estimator = regressor(optimizer=tf.keras.optimizers.legacy.Adam(0.25))
    for _ in range(2):
        assert describe_it(estimator)['optimizers'][0]['config']['learning_rate'] == 0.25


def test_a_learning_rate_by_the_step_beside_functions_that_read_variables():
    """A linear model counts the zeros of its weights in a function, which the graph keeps."""

    def optimizer():
        return tf.keras.optimizers.legacy.SGD(v1.train.cosine_decay(0.1, v1.train.get_global_step(), 50))

    found = describe_it(tf.estimator.LinearRegressor(X, optimizer=optimizer))
    assert found['optimizers'][0]['config']['learning_rate']['class_name'] == 'TracedSchedule'


def test_the_head_is_named_where_labels_have_names():
    head = tf.estimator.MultiHead([tf.estimator.RegressionHead(name=name) for name in 'ab'])
    with pytest.raises(columns.Unsupported, match='the head MultiHead'):
        describe_it(tf.estimator.LinearEstimator(head, X), labels={'a': LABELS, 'b': LABELS})


def test_sdca_has_no_optimizer_of_ours():
    features = {**FEATURES, 'id': tf.constant(['1', '2'])}
    sdca = tf.estimator.experimental.LinearSDCA('id')
    with pytest.raises(recover.NotCanned, match='LinearSDCA'):
        describe_it(tf.estimator.LinearRegressor(X, optimizer=sdca), features)


def test_a_changed_feature_counts_if_it_is_read():
    def double(name):
        return lambda features, labels: ({**features, name: features[name] * 2}, labels)

    assert describe_it(around(regressor(), double('y')))['features'].keys() == {'x'}
    with pytest.raises(columns.Unsupported, match='changes the features x'):
        describe_it(around(regressor(), double('x')))


def test_activations_are_known_by_what_they_are():
    def relu(x):
        return x

    for good, name in ((tf.nn.relu, 'relu'), (tf.keras.activations.relu, 'relu'), ('elu', 'elu'), (None, 'linear')):
        assert describe_it(regressor(activation_fn=good))['deep']['activation'] == name
    for bad in (relu, tf.keras.activations.hard_sigmoid):  # that of Keras 3 has other numbers
        with pytest.raises(columns.Unsupported, match=bad.__name__):
            describe_it(regressor(activation_fn=bad))


@pytest.mark.parametrize('weights', [fc.numeric_column('w', shape=(2,)), 'w'], ids=['column', 'name'])
def test_weights_of_each_label_are_refused(weights):
    features = {**FEATURES, 'w': tf.ones([2, 2])}
    with pytest.raises(columns.Unsupported, match=r'weight_column of shape \(2,\)'):
        describe_it(
            tf.estimator.LinearRegressor(X, label_dimension=2, weight_column=weights), features, tf.ones([2, 2])
        )


def test_reductions_of_version_1_have_the_names_of_keras():
    reduction = v1.losses.Reduction.SUM_BY_NONZERO_WEIGHTS
    estimator = v1.estimator.LinearRegressor(X, loss_reduction=reduction)
    assert describe_it(estimator)['head']['loss_reduction'] == 'sum_over_nonzero_weights'


def test_the_reduction_auto_is_the_mean():
    estimator = tf.estimator.LinearRegressor(X, loss_reduction=tf.losses.Reduction.AUTO)
    assert describe_it(estimator)['head']['loss_reduction'] == 'sum_over_batch_size'


@pytest.mark.parametrize('weight', [tf.ones([2]), tf.ones([2, 1])])
def test_a_weight_of_each_example_is_taken(weight):
    estimator = tf.estimator.LinearRegressor(X, weight_column='w')
    assert describe_it(estimator, {**FEATURES, 'w': weight})['head']['weight_column'] == 'w'


def test_vocabularies_of_both_formats_are_read(tmp_path):
    words = [b'a', 'é'.encode(), b'c']
    (tmp_path / 'lines').write_bytes(b'a\r\n' + b'\n'.join(words[1:]))
    with tf.io.TFRecordWriter(str(tmp_path / 'v.tfrecord.gz'), 'GZIP') as writer:
        for word in words:
            writer.write(word)
    for name in ('lines', 'v.tfrecord.gz'):
        column = fc.categorical_column_with_vocabulary_file('w', str(tmp_path / name), 2)
        assert columns.to_json(column, {})['vocabulary'] == ['a', 'é'], name


def test_a_vocabulary_that_is_no_text_is_refused_by_name(tmp_path):
    path = tmp_path / 'latin'
    path.write_bytes('a\né\n'.encode('latin-1'))
    column = fc.categorical_column_with_vocabulary_file('w', str(path))
    with pytest.raises(columns.Unsupported, match=r"the word b'\\xe9' in the vocabulary of w \(.*latin\)"):
        columns.to_json(column, {})


@pytest.mark.parametrize('names, read', [('w', 'w'), ('wx', 'x'), ('wxa', 'a')])
def test_a_baseline_reads_the_weights_if_there_is_nothing_else(names, read):
    estimator = tf.estimator.BaselineRegressor(weight_column='w')
    features = {name: tf.ones([2, 1]) for name in names}
    assert describe_it(estimator, features)['features'].keys() == {read}
