"""Types of numbers, partitioned variables, warm starts, several train calls."""

import tensorflow as tf

from estimator_trainer.jobs import Job
from tests.differential import data
from tests.differential.building import adam, dense, job_of, model_fn_of, sgd, squared
from tests.differential.case import add, case

v1 = tf.compat.v1


def of_type(dtype):
    return lambda x: dense(dense(tf.cast(x, dtype), 4, 'hidden', tf.tanh, dtype), dtype=dtype)


for dtype in (tf.float16, tf.bfloat16, tf.float64):
    train = sgd if dtype == tf.bfloat16 else adam
    add(__name__, f'variables_of_{dtype.name}', lambda dtype=dtype, train=train: job_of(of_type(dtype), train=train))


def loss_of(dtype):
    return lambda output, labels: tf.cast(squared(output, labels), dtype)


for dtype, single in ((tf.float64, None), (tf.float16, 'float16'), (tf.bfloat16, 'bfloat16')):
    add(
        __name__,
        f'loss_of_{dtype.name}',
        lambda dtype=dtype: job_of(dense, loss_of=loss_of(dtype)),
        single=single,
        replicas=dtype == tf.float64,
    )


@case()
def activations_of_bfloat16():
    def net(x):
        kernel = v1.get_variable('kernel', [15, 4])
        return dense(tf.cast(tf.cast(tf.reshape(x, [-1, 15]), tf.bfloat16) @ tf.cast(kernel, tf.bfloat16), tf.float32))

    return job_of(net)


@case()
def loss_with_a_dimension():
    return job_of(dense, loss_of=lambda output, labels: tf.reshape(squared(output, labels), [1]))


@case(replicas=False)
def partitioned_table():
    def net(features):
        table = v1.get_variable('table', [12, 4], partitioner=v1.fixed_size_partitioner(3))
        return dense(tf.nn.embedding_lookup(table, features['ids']))

    return job_of(net, data.words, train=adam)


@case(replicas=False)
def partitioned_layer():
    def net(x):
        with v1.variable_scope('parts', partitioner=v1.fixed_size_partitioner(2)):
            kernel = tf.convert_to_tensor(v1.get_variable('kernel', [16, 4]))
        return dense(tf.reshape(x, [-1, 15]) @ kernel[:15])

    return job_of(net)


@case(single='belongs to a variable of TensorFlow 1', replicas=False)
def reference_variable():
    def net(x):
        return dense(x) * v1.get_variable('scale', [], initializer=v1.ones_initializer(), use_resource=False)

    return job_of(net)


@case(steps=(7, 8, 21))
def several_train_calls():
    return job_of(dense, train=adam)


@case(steps=(7, 21), counts_by_one=False)
def several_train_calls_of_an_lstm():
    return job_of(lambda x: dense(tf.keras.layers.LSTM(3)(x)), train=adam)


def earlier_checkpoint(folder):
    with tf.Graph().as_default():
        weights = v1.get_variable('out/kernel', initializer=tf.range(15.0)[:, None] / 20.0, use_resource=True)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return v1.train.Saver([weights]).save(session, f'{folder}/before')


@case(warm_start=True, sample=True)
def warm_start():
    """From the checkpoint that `played` has made."""

    def make_estimator(run_config, params):
        settings = tf.estimator.WarmStartSettings(data.RECORD.earlier, vars_to_warm_start='out/kernel')
        return tf.estimator.Estimator(model_fn_of(dense), config=run_config, warm_start_from=settings)

    return Job(make_estimator=make_estimator, input_fn=data.input_of(data.sequences))
