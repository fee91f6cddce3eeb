"""A job for test_tf_round_trip: a linear model that also gives back what it has read."""

from estimator_trainer.jobs import Job

COLUMNS = ('score', 'number', 'real', 'text')


def file_spec(params):
    import tensorflow as tf

    from estimator_trainer.data.files import FileSpec

    fixed = tf.io.FixedLenFeature
    features = {
        'number': fixed([], tf.int64),
        'real': fixed([], tf.float32, 0.25),
        'text': fixed([], tf.string, 'none'),
        'y': fixed([], tf.float32),
    }
    return FileSpec(features, label='y', key='key')


def model_fn(features, labels, mode, params):
    import tensorflow as tf

    v1 = tf.compat.v1
    number, real, text = (features[name] for name in COLUMNS[1:])
    low = tf.cast(tf.math.floormod(number, 97), tf.float32) / 97
    hashed = tf.cast(tf.strings.to_hash_bucket_fast(text, 31), tf.float32) / 31
    inputs = tf.stack([tf.math.tanh(real), low, hashed], 1)
    score = v1.layers.dense(inputs, 1, name='score')[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        found = {'score': score, 'number': number, 'real': real, 'text': text}
        return tf.estimator.EstimatorSpec(
            mode, predictions=found, export_outputs={'predict': tf.estimator.export.PredictOutput(found)}
        )
    loss = tf.reduce_mean((score - labels) ** 2)
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


job = Job(model_fn=model_fn, file_spec=file_spec)
