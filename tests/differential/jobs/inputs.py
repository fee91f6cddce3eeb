"""Forms of input: of NumPy and pandas, generators, one-shot iterators, sparse, ragged, strings, without labels."""

import numpy as np
import tensorflow as tf

from estimator_trainer.jobs import Job
from tests.differential import data
from tests.differential.building import dense, job_of, model_fn_of
from tests.differential.case import add, case

v1 = tf.compat.v1
TRAIN = tf.estimator.ModeKeys.TRAIN


def job_from(input_fn, net=dense, **of_model):
    return Job(model_fn=model_fn_of(net, **of_model), input_fn=input_fn)


def is_short(mode):
    return mode != TRAIN


# A job whose input_fn does not say where to go on begins its data again in each run.
_ANEW = dict(resumes=False, replicas=False)
_BY_QUEUE = dict(**_ANEW, events=False)  # they tell how full a queue is


@case(**_BY_QUEUE)
def numpy_input_fn():
    def input_fn(mode):
        values = data.X[:, :, 0].reshape([-1, 3])
        return v1.estimator.inputs.numpy_input_fn(
            {'x': values}, data.Y.reshape([-1, 1]), 4, num_epochs=1 if is_short(mode) else None, shuffle=False
        )()

    return job_from(input_fn, lambda features: dense(features['x']))


@case(**_BY_QUEUE)
def pandas_input_fn():
    def input_fn(mode):
        import pandas

        values = data.X[:, :, 0].reshape([-1, 3])
        frame = pandas.DataFrame({'one': values[:, 0], 'other': values[:, 1]})
        return v1.estimator.inputs.pandas_input_fn(
            frame, pandas.Series(data.Y.ravel()), 4, num_epochs=1 if is_short(mode) else None, shuffle=False
        )()

    def net(features):
        return dense(tf.cast(tf.stack([features['one'], features['other']], 1), tf.float32))

    return job_from(
        input_fn,
        net,
        loss_of=lambda output, labels: tf.reduce_mean(tf.square(output[:, 0] - tf.cast(labels, tf.float32))),
    )


@case(**_ANEW)
def generator_input():
    def input_fn(mode):
        def give():
            for number in range(2 if is_short(mode) else 10**6):
                if not is_short(mode):
                    data.RECORD.note_batch(number)
                yield data.X[number % data.BATCHES], data.Y[number % data.BATCHES]

        shapes = (tf.TensorSpec([4, 5, 3], tf.float32), tf.TensorSpec([4, 1], tf.float32))
        return data.unhurried(tf.data.Dataset.from_generator(give, output_signature=shapes))

    return job_from(input_fn)


@case(**_ANEW)
def one_shot_iterator():
    """Tensors, no data set."""

    def input_fn(mode):
        batches = tf.data.Dataset.from_tensor_slices((data.X, data.Y))
        batches = batches.take(2) if is_short(mode) else batches.repeat()
        return v1.data.make_one_shot_iterator(batches).get_next()

    return job_from(input_fn)


@case(**_ANEW)
def own_initializable_iterator():
    def input_fn(mode):
        batches = tf.data.Dataset.from_tensor_slices((data.X, data.Y))
        iterator = v1.data.make_initializable_iterator(batches.take(2) if is_short(mode) else batches.repeat())
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        return iterator.get_next()

    return job_from(input_fn)


@case(**_BY_QUEUE)
def queue_of_batches():
    """The input queues of TensorFlow 1."""

    def input_fn(mode):
        epochs = 1 if is_short(mode) else None
        x, y = v1.train.slice_input_producer(
            [tf.constant(data.X[:8].reshape([-1, 5, 3])), tf.constant(data.Y[:8].reshape([-1, 1]))],
            num_epochs=epochs,
            shuffle=False,
        )
        return v1.train.batch([x, y], 4, num_threads=1)

    return job_from(input_fn)


@case(**_ANEW)
def shuffled_input():
    def input_fn(mode):
        rows = tf.data.Dataset.from_tensor_slices((data.X.reshape([-1, 5, 3]), data.Y.reshape([-1, 1])))
        return rows.take(8).batch(4) if is_short(mode) else rows.shuffle(200, seed=4).repeat().batch(4)

    return job_from(input_fn)


@case(**_ANEW, why='end_of_data')
def data_that_end():
    return job_of(dense, last=13)


@case(**_ANEW, why='end_of_data')
def data_that_end_for_two():
    """With two workers each of them has as many batches as the other."""
    return job_of(dense, last=12)


@case(**_ANEW)
def short_batches():
    """Epochs of 10 examples in batches of 4: each third one is short."""

    def input_fn(mode):
        rows = tf.data.Dataset.from_tensor_slices(
            (data.X[:3].reshape([-1, 5, 3])[:10], data.Y[:3].reshape([-1, 1])[:10])
        )
        return rows.batch(4) if is_short(mode) else rows.batch(4).repeat()

    return job_from(input_fn)


def padded(number):
    """Sentences of as many words as the batch says."""
    length = 1 + number % data.TIME
    return tf.gather(data.X, number)[:, :length], tf.gather(data.Y, number)


def mean_over_time(x):
    return dense(tf.reduce_mean(tf.keras.layers.Dense(4, 'tanh')(x), 1))


def lstm_over_time(x):
    return dense(tf.keras.layers.LSTM(3)(x))


def sparse(number):
    features, labels = data.words(number)
    return {'rows': tf.sparse.from_dense(features['x'] * tf.cast(features['x'] > 0, tf.float32))}, labels


def of_sparse(features):
    kernel = v1.get_variable('kernel', [3, 4])
    return dense(tf.ensure_shape(tf.sparse.sparse_dense_matmul(features['rows'], kernel), [None, 4]))


def ragged(number):
    features, labels = data.words(number)
    return {'rows': tf.RaggedTensor.from_tensor(features['ids'], lengths=1 + features['ids'][:, 0] % 4)}, labels


def of_ragged(features):
    table = v1.get_variable('table', [12, 4])
    rows = tf.nn.embedding_lookup(table, features['rows'].values)
    return dense(tf.ensure_shape(tf.reduce_mean(features['rows'].with_values(rows), 1), [None, 4]))


def of_words(features):
    words = [f'word{number}' for number in range(10)]
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(words, tf.range(10, dtype=tf.int64)), num_oov_buckets=2
    )
    vectors = v1.get_variable('table', [12, 4])
    hashed = tf.strings.to_hash_bucket_fast(features['words'], 7)
    return dense(tf.nn.embedding_lookup(vectors, table.lookup(features['words']))) + dense(
        tf.cast(hashed, tf.float32) / 20.0, name='hashed'
    )


for name, net, batches in (
    ('batches_of_many_lengths', mean_over_time, padded),
    ('lstm_of_many_lengths', lstm_over_time, padded),
    ('sparse_features', of_sparse, sparse),
    ('ragged_features', of_ragged, ragged),
    ('string_features', of_words, data.words),
):
    add(__name__, name, lambda net=net, batches=batches: job_of(net, batches), sample=name == 'lstm_of_many_lengths')


@case()
def nested_features():
    def batches(number):
        x, y = data.sequences(number)
        return {'pair': (x, {'twice': 2 * x})}, y

    return job_of(lambda features: dense(features['pair'][0] + features['pair'][1]['twice']), batches)


def without_labels(output, labels):
    assert labels is None
    return tf.reduce_mean(tf.square(output - 1.0))


@case()
def features_alone():
    return job_of(dense, lambda number: data.sequences(number)[0], loss_of=without_labels)


@case(replicas=False)
def features_and_none():
    def input_fn(mode, params):
        return data.input_of(lambda number: data.sequences(number)[0])(mode, params).map(lambda x: (x, None))

    return job_from(input_fn, loss_of=without_labels)


@case(**_ANEW)
def arrays_of_numpy():
    """An input_fn that gives constants: each step has the same batch."""

    def input_fn(mode):
        return tf.constant(data.X[0]), tf.constant(np.asarray(data.Y[0]))

    return job_from(input_fn)


@case()
def text_of_a_reader():
    """Strings that are parsed in the step."""

    def batches(number):
        x, y = data.vectors(number)
        return tf.strings.reduce_join(tf.strings.as_string(x), 1, separator=' '), y

    def net(lines):
        numbers = tf.strings.to_number(tf.strings.split(lines).to_tensor('0'))
        return dense(tf.ensure_shape(numbers, [None, 3]))

    return job_of(net, batches)
