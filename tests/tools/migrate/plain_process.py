"""A program of a migrated model's owner: it has the model, the modules beside it, TensorFlow and Keras 3.

Usage: python plain_process.py FOLDER, which has model.keras, serving.keras, inputs.pickle and the modules. Writes what
the models predict, what training on makes of that, and what an export predicts into FOLDER/found.npz.
"""

import pickle
import sys

folder = sys.argv[1]
sys.path.insert(0, folder)

import estimator_optimizers  # noqa: E402
import feature_layers  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

with open(f'{folder}/inputs.pickle', 'rb') as file:
    dense, (indices, values, shape), labels, weights = pickle.load(file)
features = {**{key: tf.constant(value) for key, value in dense.items()}, 'sp': tf.SparseTensor(indices, values, shape)}
serving = keras.models.load_model(f'{folder}/serving.keras')
found = {f'serving/{key}': np.asarray(value) for key, value in serving(features).items()}
model = keras.models.load_model(f'{folder}/model.keras')
found['logits'] = np.asarray(tf.function(model)(features))
losses = []
for batch in tf.data.Dataset.from_tensors((features, labels, weights)).repeat(3):
    model.reset_metrics()
    losses.append(model.train_on_batch(*batch))
found['losses'] = np.array(losses)
found['trained'] = np.asarray(tf.function(model)(features))
model.save(f'{folder}/again.keras')
found['again'] = np.asarray(tf.function(keras.models.load_model(f'{folder}/again.keras'))(features))

specs = {key: tf.type_spec_from_value(value) for key, value in features.items()}
serve = tf.function(serving.call, input_signature=[specs])  # add_endpoint itself knows no SparseTensors
serve(features)
archive = keras.export.ExportArchive()
archive.track(serving)
archive.add_endpoint('serve', serve)
archive.write_out(f'{folder}/saved_model', verbose=False)
loaded = tf.saved_model.load(f'{folder}/saved_model')
found.update({f'exported/{key}': np.asarray(value) for key, value in loaded.serve(features).items()})

strange = {name.partition('.')[0] for name in sys.modules} & {'estimator_trainer', 'tf_keras', 'tensorflow_estimator'}
assert not strange, strange
assert model.optimizer.__class__ is estimator_optimizers.OptimizerByLayer and feature_layers.DenseColumn
np.savez(f'{folder}/found.npz', **{key: v.astype('S') if v.dtype == object else v for key, v in found.items()})
