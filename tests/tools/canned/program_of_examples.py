"""A linear model of somebody who trains on tensors and serves tf.Examples. Run as a program, it trains and exports."""

import os

import tensorflow as tf

if not hasattr(tf, 'estimator'):  # TensorFlow 2.16 and later
    import estimator_trainer.compat  # noqa: F401

FEATURES = {
    'age': [31, 42, 53, 64],  # integers, of which the column makes floating-point numbers
    'hours': [40.0, 38.5, 20.0, 0.0],
    'rooms': [1, 2, 3, 4],
    'job': ['cook', 'smith', 'cook', 'baker'],
    'city': ['Aix', 'Ulm', 'Bern', 'Ulm'],
    'shift': [1, 2, 2, 1],
}


def columns():
    fc = tf.feature_column
    age = fc.numeric_column('age', default_value=30.0)
    city = fc.categorical_column_with_hash_bucket('city', 20)
    shift = fc.categorical_column_with_identity('shift', 4)
    return [
        fc.bucketized_column(age, [31.5, 50.0]),
        fc.numeric_column('age', default_value=30.0, normalizer_fn=lambda age: tf.cast(age, tf.float32) / 100.0),
        fc.numeric_column('hours'),
        fc.numeric_column('rooms', default_value=3, dtype=tf.int64),
        city,
        fc.crossed_column(['job', 'city'], 50),
        fc.crossed_column([fc.categorical_column_with_vocabulary_list('city', ['Ulm', 'Aix']), shift], 30),
        fc.crossed_column([shift, 'job'], 30),
    ]


def input_fn():
    return tf.data.Dataset.from_tensor_slices((FEATURES, [0, 1, 1, 0])).batch(4)


def make_estimator():
    return tf.estimator.LinearClassifier(
        columns(), os.environ['MODEL_DIR'], optimizer=tf.keras.optimizers.legacy.SGD(0.3)
    )


if __name__ == '__main__':
    estimator = make_estimator()
    estimator.train(lambda: input_fn().repeat(), steps=20)
    spec = tf.feature_column.make_parse_example_spec(columns())
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    print(estimator.export_saved_model(os.environ['EXPORTS'], receiver).decode())
