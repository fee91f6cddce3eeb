"""DeepCTR's Estimator models on click data that is made up."""
import sys

import numpy as np
import tensorflow as tf
from deepctr.estimator import DCNEstimator, DeepFMEstimator, WDLEstimator

fc = tf.feature_column


def input_fn(rows=2000, epochs=8):
    rng = np.random.RandomState(0)
    user, item, price = rng.randint(0, 20, rows), rng.randint(0, 10, rows), rng.uniform(size=rows)
    clicked = ((user + item) % 3 == 0).astype(np.int32)
    features = {'user': user, 'item': item, 'price': price.astype(np.float32)}
    return tf.data.Dataset.from_tensor_slices((features, clicked)).repeat(epochs).batch(64)


linear, deep = [], []
for name, size in (('user', 20), ('item', 10)):
    column = fc.categorical_column_with_identity(name, size)
    linear.append(fc.embedding_column(column, 1))
    deep.append(fc.embedding_column(column, 8))
linear.append(fc.numeric_column('price'))
deep.append(fc.numeric_column('price'))

found = []
for model in (DeepFMEstimator, WDLEstimator, DCNEstimator):
    estimator = model(linear, deep, task='binary', dnn_hidden_units=(32, 16),
                      model_dir=f'{sys.argv[1]}/{model.__name__}')
    estimator.train(input_fn)
    metrics = estimator.evaluate(lambda: input_fn(epochs=1))
    assert metrics['AUC'] > 0.9, metrics
    found.append(f'{model.__name__} AUC {metrics["AUC"]:.3f}')
print(f'TensorFlow {tf.__version__}:', ', '.join(found))
