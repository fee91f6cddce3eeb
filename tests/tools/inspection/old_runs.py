"""Makes model_dirs as TensorFlow 1 left them: names, files and versions of its canned Estimators."""

import contextlib

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2, saver_pb2

v1 = tf.compat.v1
VERSION = '1.15.0'
STEPS = (10, 20)


def wide_and_deep(folder, form=saver_pb2.SaverDef.V2, unknown_op=False):
    """A run of DNNLinearCombinedClassifier of TensorFlow 1.15: `city` hashed and partitioned, in both parts; `age`."""
    folder.mkdir()
    with tf.Graph().as_default() as graph, v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        city, age, label = (v1.placeholder(kind, [None]) for kind in (tf.string, tf.float32, tf.float32))
        logits = _linear(city) + _deep(city, age)
        with tf.name_scope('head'), tf.name_scope('predictions'):
            tf.sigmoid(logits, name='logistic')
            tf.argmax(logits, 1, name='class_ids')
        with tf.name_scope('head'):
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(label[:, None], logits, name='logistic_loss'))
            trained = {part: v1.trainable_variables(part) for part in ('linear', 'dnn')}
            v1.train.FtrlOptimizer(0.2).minimize(loss, var_list=trained['linear'])
            v1.train.AdagradOptimizer(0.05).minimize(loss, step, trained['dnn'])
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(max_to_keep=5, write_version=form, save_relative_paths=True)
        for number in STEPS:
            session.run(step.assign(number))
            saver.save(session, str(folder / 'model.ckpt'), number)
            _as_old(folder / f'model.ckpt-{number}.meta', unknown_op)
        v1.train.write_graph(graph, str(folder), 'graph.pbtxt')
        with contextlib.closing(v1.summary.FileWriter(str(folder / 'eval'))) as writer:
            for number, loss in zip(STEPS, (0.5, 0.4)):
                values = {'loss': loss, 'accuracy': 1 - loss, 'auc': 0.7, 'label/mean': 0.3}
                writer.add_summary(
                    v1.Summary(value=[v1.Summary.Value(tag=k, simple_value=x) for k, x in values.items()]), number
                )
    export(folder / 'export' / 'final' / '1500000000')


def export(folder, asset=False):
    """A SavedModel of TensorFlow 1.15, which parses tf.Examples with the operation that later versions left behind."""
    with tf.Graph().as_default(), v1.Session() as session:
        serialized = v1.placeholder(tf.string, [None], name='input_example_tensor')
        _, values, _, dense = tf.raw_ops.ParseExample(
            serialized=serialized,
            names=[],
            sparse_keys=['city'],
            dense_keys=['age', 'hours'],
            dense_defaults=[tf.constant([], tf.float32), tf.constant([8.0])],
            sparse_types=[tf.string],
            dense_shapes=[[1], [1]],
        )
        weight = v1.get_variable('linear/linear_model/age/weights', [1, 1], use_resource=False)
        logits = dense[0] @ weight + dense[1] + tf.cast(tf.size(values[0]), tf.float32)
        with tf.name_scope('head'), tf.name_scope('predictions'):
            logistic = tf.sigmoid(logits, name='logistic')
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(folder))
        signature = v1.saved_model.predict_signature_def({'examples': serialized}, {'logistic': logistic})
        builder.add_meta_graph_and_variables(session, ['serve'], {'predict': signature}, strip_default_attrs=True)
        builder.save()
    path = folder / 'saved_model.pb'
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    saved.meta_graphs[0].meta_info_def.tensorflow_version = VERSION
    if asset:
        saved.meta_graphs[0].asset_file_def.add(filename='words.txt')
    path.write_bytes(saved.SerializeToString())


def as_text(path):
    """Turns saved_model.pb into saved_model.pbtxt."""
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    path.with_suffix('.pbtxt').write_text(text_format.MessageToString(saved))
    path.unlink()


def _linear(city):
    with v1.variable_scope('linear/linear_model'):
        partitioner = v1.fixed_size_partitioner(2)
        weights = v1.get_variable('city/weights', [100, 1], partitioner=partitioner, use_resource=False)
        bias = v1.get_variable('bias_weights', [1], use_resource=False)
    with tf.name_scope('linear/linear_model/linear_model/city/'):
        buckets = tf.strings.to_hash_bucket_fast(city, 100)
        return v1.nn.embedding_lookup(weights, buckets, 'div', name='weighted_sum') + bias


def _deep(city, age):
    with v1.variable_scope('dnn'):
        with v1.variable_scope('input_from_feature_columns/input_layer'):
            with v1.variable_scope('city_embedding'):
                table = v1.get_variable('embedding_weights', [100, 4], use_resource=False)
            with tf.name_scope('dnn/input_from_feature_columns/input_layer/city_embedding/'):
                found = tf.gather(table, tf.strings.to_hash_bucket_fast(city, 100))
            with tf.name_scope('dnn/input_from_feature_columns/input_layer/age/'):
                net = tf.concat([found, tf.reshape(age, [-1, 1], name='Reshape')], 1)
        for name, size in (('hiddenlayer_0', 6), ('hiddenlayer_1', 3), ('logits', 1)):
            with v1.variable_scope(name):
                kernel = v1.get_variable('kernel', [net.shape[1], size], use_resource=False)
                net = net @ kernel + v1.get_variable('bias', [size], use_resource=False)
    return net


def _as_old(path, unknown_op):
    meta = meta_graph_pb2.MetaGraphDef.FromString(path.read_bytes())
    meta.meta_info_def.tensorflow_version = VERSION
    if unknown_op:
        meta.graph_def.node.add(name='crf', op='OperationOfContrib')
    path.write_bytes(meta.SerializeToString())
