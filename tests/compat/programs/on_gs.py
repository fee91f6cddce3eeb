"""on_gs.py MODEL_DIR STEPS CHECKPOINTS: fits a line on gs://, as a chief, an evaluator or alone; says what is there."""

import json
import os
import ssl
import sys
import urllib.request

import tensorflow as tf

MODEL_DIR, STEPS, CHECKPOINTS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def examples():
    print('reads examples', flush=True)
    x = tf.constant([[i / 8.0] for i in range(8)])
    return tf.data.Dataset.from_tensor_slices(({'x': x}, 2 * x + 1)).batch(4)


def training():
    return examples().repeat(STEPS // 2)  # the end of the data is the end of the training


def names(pattern, part):
    """That part of the paths in the model_dir, each once."""
    return sorted({path.split('/')[part] for path in tf.io.gfile.glob(f'{MODEL_DIR}/{pattern}')})


def read_what_another_process_writes():
    """A file that has been read, and then is written by somebody else, reads as a whole."""
    path = f'{MODEL_DIR}/note'
    with tf.io.gfile.GFile(path, 'w') as file:
        file.write('short')
    tf.io.gfile.stat(path)
    _, bucket, name = path.replace('://', '/').split('/', 2)
    request = urllib.request.Request(
        f'https://www.googleapis.com/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}', b'longer than that'
    )
    trusted = ssl.create_default_context(cafile=os.environ['CURL_CA_BUNDLE'])
    urllib.request.urlopen(request, timeout=20, context=trusted).close()
    return tf.io.gfile.GFile(path).read()


columns = [tf.feature_column.numeric_column('x')]
features = tf.feature_column.make_parse_example_spec(columns)
receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(features)
config = tf.estimator.RunConfig(MODEL_DIR, tf_random_seed=1, save_checkpoints_steps=5, keep_checkpoint_max=CHECKPOINTS)
estimator = tf.estimator.LinearRegressor(columns, config=config)
exporters = [
    tf.estimator.BestExporter(serving_input_receiver_fn=receiver),
    tf.estimator.FinalExporter('final', receiver),
]
tf.estimator.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(training),
    tf.estimator.EvalSpec(examples, steps=None, exporters=exporters, start_delay_secs=0, throttle_secs=0),
)
found = {'exports': names('export/*/*/saved_model.pb', -3)}
if config.task_type != 'evaluator':
    exported = tf.saved_model.load(estimator.export_saved_model(f'{MODEL_DIR}/own', receiver).decode())
    example = tf.train.Example()
    example.features.feature['x'].float_list.value.append(0.5)
    served = exported.signatures['predict'](examples=tf.constant([example.SerializeToString()]))
    predicted = next(iter(estimator.predict(lambda: tf.data.Dataset.from_tensors({'x': [[0.5]]}))))
    found.update(
        step=int(estimator.get_variable_value('global_step')),
        indices=names('model.ckpt-*.index', -1),
        difference=abs(float(served['predictions'][0][0]) - float(predicted['predictions'][0])),
        note=read_what_another_process_writes(),
    )
print(json.dumps(found))
