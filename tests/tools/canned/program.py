"""Somebody's program with canned Estimators of every class and columns of every kind.

`make_estimator` is what the environment names: KIND, such as DNNLinearCombinedClassifier, VERSION 1 or 2, and a
MODEL_DIR. Run as a program, it trains.
"""

import os

import numpy as np
import tensorflow as tf

if not hasattr(tf, 'estimator'):  # TensorFlow 2.16 and later
    import estimator_trainer.compat  # noqa: F401

KINDS = [
    f'{family}{what}'
    for family in ('Baseline', 'Linear', 'DNN', 'DNNLinearCombined')
    for what in ('Classifier', 'Regressor')
]
SCHOOLS = ['Bachelors', 'HS-grad', '11th', 'Masters', 'Doctorate']
CLASSES = ['no', 'yes']
BATCH = 32


def input_fn():
    """No batch is like another one, and the last of an evaluation is shorter."""
    random = np.random.RandomState(5)
    return tf.data.Dataset.from_tensor_slices(_rows(random, 16 * BATCH + 8)).batch(BATCH).map(_sparse)


def train_input_fn():
    return input_fn().repeat()


def _rows(random, count):
    words = [f'w{number}' for number in range(40)]

    def some(chosen, width, missing=''):
        found = random.choice(chosen, (count, width)).astype(object)
        found[random.rand(count, width) < 0.3] = missing
        return found

    age = random.uniform(15, 90, count).astype(np.float32)
    features = {
        'age': age,
        'hours': random.normal(40, 12, count).astype(np.float32),
        'point': random.normal(size=(count, 3)).astype(np.float32),
        'school': some([*SCHOOLS, 'unknown', 'other'], 1)[:, 0],
        'city': some([f'city-{number}' for number in range(300)], 1)[:, 0],
        'zip': random.randint(-1, 5000, count),
        'relation': random.randint(-1, 7, count),
        'tags': some(words, 3),
        'skills': some(words, 4),
        'strength': random.uniform(0, 2, (count, 4)).astype(np.float32),
        'weight': random.uniform(0.5, 2, count).astype(np.float32),
    }
    score = 0.05 * (age - 45) + np.isin(features['school'], SCHOOLS[3:]) + random.normal(size=count)
    return features, (score.astype(np.float32) if _regresses() else np.array(CLASSES, object)[(score > 0).astype(int)])


def _sparse(features, labels):
    features = dict(features)
    there = tf.where(tf.not_equal(features['skills'], ''))
    shape = tf.shape(features['skills'], out_type=tf.int64)
    for name in ('skills', 'strength'):
        features[name] = tf.SparseTensor(there, tf.gather_nd(features[name], there), shape)
    if _kind().startswith('Baseline'):  # that of version 2 cannot be trained with several features
        features = {name: features[name] for name in ('age', 'weight')[: 1 + _weighs()]}
    return features, labels


def columns():
    """(wide, deep)."""
    fc = tf.feature_column
    age, point = fc.numeric_column('age'), fc.numeric_column('point', shape=3)
    hours = fc.numeric_column('hours', normalizer_fn=lambda hours: (hours - 40.0) / 12.0)
    decades = fc.bucketized_column(age, [18, 25, 30.5, 40, 50, 65])
    cells = fc.bucketized_column(point, [-1.0, 0.0, 1.0])
    school = fc.categorical_column_with_vocabulary_list('school', SCHOOLS, num_oov_buckets=2)
    city = fc.categorical_column_with_hash_bucket('city', 100)
    zips = fc.categorical_column_with_hash_bucket('zip', 200, tf.int64)
    relation = fc.categorical_column_with_identity('relation', 6, default_value=0)
    tags = fc.categorical_column_with_vocabulary_list('tags', [f'w{number}' for number in range(30)])
    skills = fc.categorical_column_with_hash_bucket('skills', 50)
    strong = fc.weighted_categorical_column(skills, 'strength')
    wide = [
        *(decades, cells, school, city, zips, relation, tags, strong, hours, point),
        fc.crossed_column([decades, school, 'city'], 300),
        fc.crossed_column(['tags', 'city'], 200, hash_key=7),
    ]
    deep = [
        *(age, hours, point, decades, fc.indicator_column(school), fc.indicator_column(tags)),
        fc.embedding_column(city, 6),
        fc.embedding_column(skills, 5, combiner='sqrtn', max_norm=1.0),
        fc.embedding_column(strong, 4),
        fc.embedding_column(zips, 3, combiner='sum'),
        fc.indicator_column(relation),
    ]
    return wide, deep


def _kind():
    return os.environ.get('KIND', 'DNNLinearCombinedClassifier')


def _regresses():
    return _kind().endswith('Regressor')


def _weighs():
    return _kind() != 'BaselineRegressor'


def make_estimator():
    kind, version = _kind(), int(os.environ.get('VERSION', '2'))
    wide, deep = columns()
    arguments = {'weight_column': 'weight' if _weighs() else None, 'model_dir': os.environ['MODEL_DIR']}
    if not _regresses():
        arguments['label_vocabulary'] = CLASSES
    if kind.startswith('Linear'):
        arguments |= {'feature_columns': wide}
    elif kind.startswith('DNNLinear'):
        arguments |= {'linear_feature_columns': wide, 'dnn_feature_columns': deep, 'dnn_hidden_units': [16, 8]}
    elif kind.startswith('DNN'):
        arguments |= {'feature_columns': deep, 'hidden_units': [16, 8], 'batch_norm': True}
    module = tf.compat.v1.estimator if version == 1 else tf.estimator
    config = tf.estimator.RunConfig(tf_random_seed=1)
    return getattr(module, kind)(config=config, **arguments)


if __name__ == '__main__':
    make_estimator().train(train_input_fn, steps=60)
