"""Canned wide and deep on census-like data, TF 2 style, with tf.feature_column."""

import json
import sys

import numpy as np
import tensorflow as tf

EDUCATION = ['HS-grad', 'Some-college', 'Bachelors', 'Masters', 'Doctorate']
OCCUPATION = ['Sales', 'Tech-support', 'Craft-repair', 'Exec-managerial', 'Other']


def census(rows, seed):
    rng = np.random.RandomState(seed)
    age = rng.randint(17, 80, rows)
    education = rng.randint(0, 5, rows)
    occupation = rng.randint(0, 5, rows)
    hours = rng.randint(10, 80, rows)
    score = 0.05 * (age - 45) + 0.8 * (education - 2) + 0.05 * (hours - 40) + (occupation == 3)
    features = {
        'age': age.astype(np.float32),
        'hours': hours.astype(np.float32),
        'education': np.array(EDUCATION)[education],
        'occupation': np.array(OCCUPATION)[occupation],
    }
    return features, (score + rng.normal(0, 0.5, rows) > 0).astype(np.int32)


def input_fn(rows, seed, repeat):
    dataset = tf.data.Dataset.from_tensor_slices(census(rows, seed))
    return (dataset.repeat() if repeat else dataset).batch(50)


fc = tf.feature_column
age, hours = fc.numeric_column('age'), fc.numeric_column('hours')
education = fc.categorical_column_with_vocabulary_list('education', EDUCATION)
occupation = fc.categorical_column_with_hash_bucket('occupation', 20)
age_buckets = fc.bucketized_column(age, [18, 25, 30, 35, 40, 45, 50, 55, 60, 65])
wide = [
    education,
    occupation,
    age_buckets,
    fc.crossed_column(['education', 'occupation'], 50),
    fc.crossed_column([age_buckets, 'education'], 100),
]
deep = [
    fc.numeric_column('age', normalizer_fn=lambda x: (x - 45) / 20),
    fc.numeric_column('hours', normalizer_fn=lambda x: (x - 40) / 20),
    fc.indicator_column(education),
    fc.embedding_column(occupation, dimension=4),
]

classifier = tf.estimator.DNNLinearCombinedClassifier(
    model_dir=sys.argv[1],
    linear_feature_columns=wide,
    dnn_feature_columns=deep,
    dnn_hidden_units=[32, 16],
    dnn_dropout=0.1,
    batch_norm=True,
    config=tf.estimator.RunConfig(tf_random_seed=7, save_summary_steps=20),
)
classifier = tf.estimator.add_metrics(
    classifier,
    lambda labels, predictions: {'mean_probability': tf.compat.v1.metrics.mean(predictions['probabilities'][:, 1])},
)
metrics, _ = tf.estimator.train_and_evaluate(
    classifier,
    tf.estimator.TrainSpec(lambda: input_fn(2000, 1, True), max_steps=120),
    tf.estimator.EvalSpec(lambda: input_fn(500, 2, False), steps=None, throttle_secs=0),
)
json.dump({name: float(value) for name, value in metrics.items()}, open(sys.argv[2], 'w'))
