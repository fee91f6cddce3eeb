"""export_saved_model and reload, exporters, then a second model that is warm-started from the first."""

import json
import os
import sys

import numpy as np
import tensorflow as tf


def dataset(seed, rows=400):
    rng = np.random.RandomState(seed)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    word = np.array(['red', 'green', 'blue'])[rng.randint(0, 3, rows)]
    y = (x @ [1.0, -2.0, 0.5, 3.0] + (word == 'blue')).astype(np.float32)[:, None]
    return tf.data.Dataset.from_tensor_slices(({'x': x, 'word': word}, y))


word = tf.feature_column.categorical_column_with_vocabulary_list('word', ['red', 'green', 'blue'])
columns = [tf.feature_column.numeric_column('x', [4]), tf.feature_column.embedding_column(word, 2)]


def make(name, **kwargs):
    return tf.estimator.DNNRegressor(
        [16],
        columns,
        model_dir=os.path.join(sys.argv[1], name),
        optimizer='Adagrad',
        config=tf.estimator.RunConfig(tf_random_seed=1),
        **kwargs,
    )


serving_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(
    tf.feature_column.make_parse_example_spec(columns)
)
first = make('first')
metrics, exports = tf.estimator.train_and_evaluate(
    first,
    tf.estimator.TrainSpec(lambda: dataset(1).repeat().batch(40), max_steps=60),
    tf.estimator.EvalSpec(
        lambda: dataset(2).batch(100),
        steps=None,
        throttle_secs=0,
        exporters=[tf.estimator.FinalExporter('final', serving_fn), tf.estimator.BestExporter('best', serving_fn)],
    ),
)
assert all(exports), exports

path = first.export_saved_model(os.path.join(sys.argv[1], 'saved'), serving_fn)
served = tf.saved_model.load(path.decode()).signatures['predict']
example = tf.train.Example()
example.features.feature['x'].float_list.value.extend([1.0, 2.0, 3.0, 4.0])
example.features.feature['word'].bytes_list.value.append(b'blue')
answer = served(examples=tf.constant([example.SerializeToString()]))['predictions']

second = make(
    'second',
    warm_start_from=tf.estimator.WarmStartSettings(first.model_dir, vars_to_warm_start='.*(hiddenlayer_0|embedding).*'),
)
second.train(lambda: dataset(3).repeat().batch(40), max_steps=20)
warm = second.evaluate(lambda: dataset(2).batch(100))
json.dump(
    {
        'served': float(answer[0, 0]),
        'warm_loss': float(warm['loss']),
        **{name: float(value) for name, value in metrics.items()},
    },
    open(sys.argv[2], 'w'),
)
