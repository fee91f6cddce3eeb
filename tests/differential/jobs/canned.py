"""Canned Estimators and heads, and Estimators of Keras models."""

import tensorflow as tf

from estimator_trainer.jobs import Job
from tests.differential import data
from tests.differential.case import add

v1 = tf.compat.v1
estimators, columns, layers = tf.estimator, tf.feature_column, tf.keras.layers


def floats():
    return [columns.numeric_column('x', shape=[3])]


def categories():
    return columns.categorical_column_with_vocabulary_list('word', [f'word{number}' for number in range(10)])


def wide():
    return [
        categories(),
        columns.crossed_column([categories(), columns.categorical_column_with_identity('id', 12)], 20),
    ]


def deep():
    return [*floats(), columns.embedding_column(categories(), 3)]


def batches_for(labels_of):
    def batches(number):
        features, labels = data.words(number)
        given = {'x': features['x'], 'word': features['words'][:, :1], 'id': features['ids'][:, :1]}
        return given, labels_of(labels)

    return batches


def classes(number):
    return lambda labels: tf.cast(tf.abs(labels) * 5.0, tf.int64) % number


def as_they_are(labels):
    return labels


def counts(labels):
    return tf.round(tf.abs(labels))


def many_labels(labels):
    return tf.concat([classes(2)(labels), classes(2)(labels * 3.0), classes(2)(labels * 7.0)], 1)


CANNED = {
    'linear_regressor': (as_they_are, lambda c: estimators.LinearRegressor(wide(), config=c)),
    'linear_classifier': (classes(2), lambda c: estimators.LinearClassifier(wide(), config=c)),
    'linear_classifier_of_v1': (classes(2), lambda c: v1.estimator.LinearClassifier(wide(), config=c)),
    'dnn_regressor': (as_they_are, lambda c: estimators.DNNRegressor([4], deep(), config=c)),
    'dnn_classifier': (classes(2), lambda c: estimators.DNNClassifier([4, 3], deep(), config=c)),
    'dnn_classifier_of_three': (classes(3), lambda c: estimators.DNNClassifier([4], deep(), n_classes=3, config=c)),
    'dnn_classifier_of_v1': (
        classes(3),
        lambda c: v1.estimator.DNNClassifier([4], deep(), n_classes=3, optimizer='Adam', config=c),
    ),
    'dnn_with_batch_norm': (classes(2), lambda c: estimators.DNNClassifier([4], deep(), batch_norm=True, config=c)),
    'wide_and_deep': (
        classes(2),
        lambda c: estimators.DNNLinearCombinedClassifier(c.model_dir, wide(), 'Ftrl', deep(), 'Adagrad', [4], config=c),
    ),
    'wide_and_deep_regressor': (
        as_they_are,
        lambda c: estimators.DNNLinearCombinedRegressor(
            c.model_dir, wide(), 'Ftrl', deep(), 'Adam', dnn_hidden_units=[4], config=c
        ),
    ),
    'wide_and_deep_of_v1': (
        classes(2),
        lambda c: v1.estimator.DNNLinearCombinedClassifier(
            c.model_dir, wide(), 'Ftrl', deep(), 'Adagrad', [4], config=c
        ),
    ),
    'baseline_classifier': (classes(3), lambda c: estimators.BaselineClassifier(n_classes=3, config=c)),
    'baseline_regressor': (as_they_are, lambda c: estimators.BaselineRegressor(config=c)),
    'poisson_head': (
        counts,
        lambda c: estimators.DNNEstimator(estimators.PoissonRegressionHead(), [4], deep(), config=c),
    ),
    'multi_label_head': (
        many_labels,
        lambda c: estimators.DNNEstimator(estimators.MultiLabelHead(3), [4], deep(), config=c),
    ),
    'logistic_head': (
        lambda labels: tf.sigmoid(labels),
        lambda c: estimators.LinearEstimator(estimators.LogisticRegressionHead(), wide(), config=c),
    ),
    'multi_head': (
        lambda labels: {'one': labels, 'other': classes(3)(labels)},
        lambda c: estimators.DNNEstimator(
            estimators.MultiHead([estimators.RegressionHead(name='one'), estimators.MultiClassHead(3, name='other')]),
            [4],
            deep(),
            config=c,
        ),
    ),
}
for name, (labels_of, make) in CANNED.items():
    add(
        __name__,
        name,
        lambda labels_of=labels_of, make=make: Job(
            make_estimator=lambda run_config, params: make(run_config), input_fn=data.input_of(batches_for(labels_of))
        ),
        sample=name == 'wide_and_deep',
        # The summary of a linear model's bias reads it in no order to the update, in plain TensorFlow too.
        events=not name.startswith(('linear_', 'wide_and_deep', 'logistic_head')),
        updates=name == 'dnn_with_batch_norm',
    )


def job_of_estimator(make, batches):
    return Job(make_estimator=lambda run_config, params: make(run_config), input_fn=data.input_of(batches))


def sequence_batches(number):
    features, labels = data.words(number)
    return {'words': tf.sparse.from_dense(features['words'])}, classes(2)(labels)


def rnn_classifier(c):
    column = columns.sequence_categorical_column_with_vocabulary_list(
        'words', [f'word{number}' for number in range(10)]
    )
    return estimators.experimental.RNNClassifier(
        [columns.embedding_column(column, 3)], units=[3], cell_type='lstm', optimizer='SGD', config=c
    )


# Plain TensorFlow 2.15.1 fails with two replicas as well.
add(__name__, 'rnn_classifier', lambda: job_of_estimator(rnn_classifier, sequence_batches), replicas=False)


def kmeans(c):  # with mini-batches upstream's operations race: ten runs of plain TensorFlow give five results
    return v1.estimator.experimental.KMeans(3, config=c, seed=4, use_mini_batch=False, feature_columns=floats())


add(
    __name__,
    'kmeans',
    lambda: job_of_estimator(kmeans, lambda number: {'x': data.vectors(number)[0]}),
    replicas=False,
    counts_by_one=False,
)


def of_keras(make):
    def made(c):
        model = make()
        model.compile('adam', 'mse')
        return tf.keras.estimator.model_to_estimator(model, config=c)

    return made


def seeded(layer, seed, *args, **kwargs):
    """A layer whose first weights are the same each time: Keras draws them when the model is made."""
    kwargs['kernel_initializer'] = tf.keras.initializers.GlorotUniform(seed)
    if issubclass(layer, layers.LSTM | layers.GRU):
        kwargs['recurrent_initializer'] = tf.keras.initializers.Orthogonal(seed=seed)
    return layer(*args, **kwargs)


def one_input():
    return tf.keras.Sequential([seeded(layers.Dense, 1, 4, 'relu', input_shape=[3]), seeded(layers.Dense, 2, 1)])


def recurrent():
    return tf.keras.Sequential([seeded(layers.LSTM, 1, 3, input_shape=[5, 3]), seeded(layers.Dense, 2, 1)])


def with_averages():
    first = seeded(layers.Conv2D, 1, 2, 3, input_shape=[6, 6, 2])
    return tf.keras.Sequential([first, layers.BatchNormalization(), layers.Flatten(), seeded(layers.Dense, 2, 1)])


def several():
    one, other = tf.keras.Input([3], name='one'), tf.keras.Input([5, 3], name='other')
    middle = layers.Concatenate()([seeded(layers.Dense, 1, 3)(one), seeded(layers.GRU, 2, 2)(other)])
    outputs = [seeded(layers.Dense, seed, 1, name=name)(middle) for seed, name in ((3, 'first'), (4, 'second'))]
    return tf.keras.Model([one, other], outputs)


def several_batches(number):
    x, y = data.sequences(number)
    return {'one': x[:, 0], 'other': x}, {'first': y, 'second': 2 * y}


for name, make, batches in (
    ('keras_estimator', one_input, data.vectors),
    ('keras_estimator_of_an_lstm', recurrent, data.sequences),
    ('keras_estimator_with_batch_normalization', with_averages, data.images),
    ('keras_estimator_of_several', several, several_batches),
):
    add(
        __name__,
        name,
        lambda make=make, batches=batches: job_of_estimator(of_keras(make), batches),
        replicas=name != 'keras_estimator_with_batch_normalization',  # so does plain TensorFlow 2.15.1
        sample=name == 'keras_estimator_of_several',
    )
