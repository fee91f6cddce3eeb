"""compat.tf1_names.contrib: tables, predictors, summaries and MNIST."""

import gzip
import itertools

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.tf1_names import contrib
from estimator_trainer.compat.tf1_names.contrib import estimator_names, mnist_data_sets

v1 = tf.compat.v1


def table(path, *args, lookup, **kwargs):
    """What a table of tf.contrib gives for these keys."""
    with tf.Graph().as_default(), v1.Session() as session:
        made = contrib.find(f'lookup.{path}')(*args, **kwargs)
        found = made.lookup(tf.constant(lookup))
        session.run(v1.tables_initializer())
        return session.run(found).tolist()


def test_tables_have_the_arguments_of_tensorflow_1():
    words = ['a', 'b']
    assert table('index_table_from_tensor', mapping=words, lookup=['b', 'c']) == [1, -1]
    assert table('index_table_from_tensor', mapping=words, num_oov_buckets=1, lookup=['b', 'c']) == [1, 2]
    assert table('index_to_string_table_from_tensor', mapping=words, lookup=np.int64([0, 5])) == [b'a', b'UNK']
    pairs = tf.lookup.KeyValueTensorInitializer
    with tf.Graph().as_default(), v1.Session() as session:
        made = contrib.find('lookup.HashTable')(pairs(words, [3, 4]), -1, shared_name='shared')
        session.run(v1.tables_initializer())
        assert session.run(made.lookup(tf.constant(words))).tolist() == [3, 4]
    assert table('MutableHashTable', tf.string, tf.int64, -1, shared_name='shared', lookup=words) == [-1, -1]
    dense = dict(empty_key='', deleted_key='-', shared_name='shared')
    assert table('MutableDenseHashTable', tf.string, tf.int64, -1, **dense, lookup=words) == [-1, -1]
    with tf.Graph().as_default(), v1.Session() as session:
        found = contrib.find('lookup.string_to_index')(tf.constant(['b', 'c']), mapping=words)
        back = contrib.find('lookup.index_to_string')(tf.constant([1, 7]), mapping=words)
        session.run(v1.tables_initializer())
        assert [each.tolist() for each in session.run([found, back])] == [[1, -1], [b'b', b'UNK']]


def test_tables_are_initialized_by_init(tmp_path):
    """As programs for TensorFlow 1 do it: `table.init.run()`."""
    (tmp_path / 'words.txt').write_text('a\nb\n')
    file, words, found = str(tmp_path / 'words.txt'), ['a', 'b'], contrib.find
    with tf.Graph().as_default(), v1.Session() as session:
        pairs = found('lookup.KeyValueTensorInitializer')(words, [3, 4])
        for made, keys, values in (
            (found('lookup.HashTable')(pairs, -1), words, [3, 4]),
            (found('lookup.index_table_from_tensor')(words), words, [0, 1]),
            (found('lookup.index_table_from_tensor')(words, 1), words, [0, 1]),
            (found('lookup.index_table_from_file')(file), words, [0, 1]),
            (found('lookup.index_to_string_table_from_tensor')(words), np.int64([1]), [b'b']),
            (found('lookup.index_to_string_table_from_file')(file), np.int64([1]), [b'b']),
        ):
            made.init.run()
            assert session.run(made.lookup(tf.constant(keys))).tolist() == values


def test_an_index_table_takes_a_dtype_before_the_name():
    hasher, numbers = contrib.find('lookup.FastHashSpec'), np.int64([5, 7])
    assert table('index_table_from_tensor', numbers, 0, -1, hasher, tf.int64, 'name', lookup=np.int64([7, 6])) == [
        1,
        -1,
    ]
    assert table('index_table_from_tensor', numbers, dtype=tf.int64, lookup=np.int64([7, 6])) == [1, -1]


def test_the_modes_of_learn():
    modes = contrib.find('learn.ModeKeys')
    assert (modes.TRAIN, modes.EVAL, modes.INFER) == ('train', 'eval', 'infer')


def _doubling(features, labels, mode, params):
    with v1.variable_scope('net'):
        factor = v1.get_variable('factor', [], initializer=v1.ones_initializer(), use_resource=False)
    if mode == tf.estimator.ModeKeys.PREDICT:
        doubled = tf.estimator.export.PredictOutput({'product': features['x'] * factor})
        summed = tf.estimator.export.PredictOutput({'sum': features['x'] + factor})
        outputs = {v1.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: doubled, 'sums': summed}
        return tf.estimator.EstimatorSpec(mode, predictions=features['x'] * factor, export_outputs=outputs)
    step = v1.assign_add(v1.train.get_or_create_global_step(), 1)
    with tf.control_dependencies([v1.assign(factor, 2.0)]):
        return tf.estimator.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=tf.group(step))


def _receiver():
    x = v1.placeholder(tf.float32, [None], name='given')
    return tf.estimator.export.ServingInputReceiver({'x': x}, {'x': x})


@pytest.fixture(scope='module')
def doubling(tmp_path_factory):
    """(an Estimator that has learned to double, the folder of its export)."""
    estimator = tf.estimator.Estimator(_doubling, str(tmp_path_factory.mktemp('doubling')))
    estimator.train(lambda: tf.data.Dataset.from_tensors(({'x': [1.0]}, [0.0])), steps=1)
    exported = estimator.export_saved_model(str(tmp_path_factory.mktemp('exported')), _receiver)
    return estimator, exported.decode()


@pytest.mark.parametrize('source', ['saved_model', 'estimator'])
def test_a_predictor_answers_with_trained_weights(doubling, source):
    given = doubling[0] if source == 'estimator' else doubling[1]
    more = (_receiver,) if source == 'estimator' else ()
    make = contrib.find(f'predictor.from_{source}')
    predict = make(given, *more)
    assert predict({'x': [1.0, 3.0]})['product'].tolist() == [2.0, 6.0]
    assert predict({'x': [5.0]})['product'].tolist() == [10.0]
    assert make(given, *more, 'sums')({'x': [5.0]})['sum'].tolist() == [7.0]
    assert predict.graph is not v1.get_default_graph() and predict.session.graph is predict.graph
    assert isinstance(predict, contrib.find('predictor.predictor.Predictor'))
    with pytest.raises(ValueError, match=r"unexpected keys in input_dict: \['y'\]"):
        predict({'y': [5.0]})
    with pytest.raises(ValueError, match='There are: serving_default, sums'):
        make(given, *more, 'predictions')


def test_a_predictor_takes_the_names_of_tensors(doubling):
    make = contrib.find('predictor.from_saved_model')
    predict = make(doubling[1], input_names={'a': 'given:0'}, output_names={'b': 'net/factor:0'}, tags='serve')
    assert predict({})['b'] == 2.0 and predict.feed_tensors['a'].name == 'given:0'
    with pytest.raises(ValueError, match='go together'):
        make(doubling[1], input_names={'a': 'given:0'})
    with pytest.raises(AttributeError, match='use predictor.from_estimator'):
        contrib.find('predictor.from_contrib_estimator')


def test_heads_take_the_mean():
    with tf.Graph().as_default(), v1.Session() as session:
        labels = tf.constant([[0], [2]])
        logits = tf.constant([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
        head = estimator_names.multi_class_head(3)
        loss = head.create_loss({}, v1.estimator.ModeKeys.EVAL, logits, labels).training_loss
        assert session.run(loss) == pytest.approx(np.log(3))


def test_summaries_are_written_at_every_second_step(tmp_path):
    summary = contrib.find('summary')
    with tf.Graph().as_default(), v1.Session() as session, summary.create_file_writer(str(tmp_path)).as_default():
        step = v1.train.get_or_create_global_step()
        with summary.record_summaries_every_n_global_steps(2):
            summary.scalar('loss', 10 * step, step=step)
        with tf.control_dependencies(summary.all_summary_ops()):
            next_step = v1.assign_add(step, 1)
        session.run(v1.global_variables_initializer())
        summary.initialize(session=session)
        for _ in range(4):
            session.run(next_step)
        session.run(summary.flush())
    events = itertools.chain(*map(v1.train.summary_iterator, map(str, tmp_path.iterdir())))
    written = [(event.step, value.simple_value) for event in events for value in event.summary.value]
    assert written == [(0, 0), (2, 20)]


@pytest.mark.parametrize('arguments', [{'num_gpus': 0}, {'num_gpus_per_worker': 0}, {'devices': ['/cpu:0']}])
def test_a_mirrored_strategy_takes_a_number_of_gpus(arguments):
    strategy = contrib.find('distribute.MirroredStrategy')(cross_tower_ops=None, **arguments)
    assert strategy.num_replicas_in_sync == 1
    assert isinstance(strategy, v1.distribute.MirroredStrategy)


def test_strategies_refuse_what_they_cannot_do():
    with pytest.raises(ValueError, match='one of devices, num_gpus'):
        contrib.find('distribute.MirroredStrategy')(devices=['/cpu:0'], num_gpus=1)
    with pytest.raises(TypeError, match='no argument gpus'):
        contrib.find('distribute.MirroredStrategy')(gpus=1)
    with pytest.raises(ValueError, match='num_gpus_per_worker is 5: let CUDA_VISIBLE_DEVICES'):
        contrib.find('distribute.CollectiveAllReduceStrategy')(num_gpus_per_worker=5)


@pytest.fixture
def images(tmp_path):
    """A folder with the four files of MNIST, of twelve and of four images."""
    for name, count in (('train', 12), ('t10k', 4)):
        pixels = bytes(number % 256 for number in range(count * 784))
        header = np.array([2051, count, 28, 28], '>u4').tobytes()
        (tmp_path / f'{name}-images-idx3-ubyte.gz').write_bytes(gzip.compress(header + pixels))
        header = np.array([2049, count], '>u4').tobytes()
        (tmp_path / f'{name}-labels-idx1-ubyte.gz').write_bytes(gzip.compress(header + bytes(range(10)) + bytes(2)))
    labels = np.array([2049, 4], '>u4').tobytes() + bytes(range(4))
    (tmp_path / 't10k-labels-idx1-ubyte.gz').write_bytes(gzip.compress(labels))
    return tmp_path


def test_mnist_is_read_from_its_files(images):
    read = contrib.find('learn.datasets.mnist').read_data_sets
    assert contrib.find('learn.python.learn.datasets.mnist.read_data_sets') is read
    found = read(images, validation_size=2)
    assert [each.num_examples for each in found] == [10, 2, 4]
    assert found.train.images.shape == (10, 784) and found.train.images.dtype == np.float32
    assert found.validation.images[0, :3].tolist() == [np.float32(pixel) / np.float32(255) for pixel in range(3)]
    assert found.train.labels.tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 0, 0]
    raw = read(images, one_hot=True, reshape=False, dtype=tf.uint8, validation_size=0)
    assert raw.test.images.shape == (4, 28, 28, 1) and raw.test.images[1, 0, :2, 0].tolist() == [16, 17]
    assert raw.test.labels.tolist() == np.eye(10)[:4].tolist()


def test_images_of_the_programs_own_are_scaled_and_become_rows():
    images, labels = np.arange(24, dtype=np.uint8).reshape(3, 2, 4, 1), np.arange(3)
    kind = contrib.find('learn.datasets.mnist').DataSet
    found, its_labels = kind(images, labels).next_batch(3, shuffle=False)
    assert found.dtype == np.float32 and its_labels.tolist() == [0, 1, 2]
    assert found.tolist() == (images.reshape(3, 8).astype(np.float32) / np.float32(255)).tolist()
    assert kind(images, labels, False, True, tf.uint8, False, seed=1).images is images
    with pytest.raises(TypeError, match='uint8 or float32'):
        kind(images, labels, dtype=tf.int32)
    with pytest.raises(ValueError, match='reshape=False'):
        kind(images[..., 0], labels)


def test_batches_of_mnist_go_on_into_the_next_epoch(images):
    train = mnist_data_sets.read_data_sets(images, validation_size=2, seed=3).train
    labels = np.concatenate([train.next_batch(4)[1] for _ in range(5)])
    assert train.epochs_completed == 1
    for epoch in (labels[:10], labels[10:]):
        assert sorted(epoch) == sorted(train.labels)
    assert labels[:10].tolist() != labels[10:].tolist() != train.labels.tolist()
    again = mnist_data_sets.read_data_sets(images, validation_size=2, seed=3).train
    assert again.next_batch(10)[1].tolist() == labels[:10].tolist()
    assert again.next_batch(3, shuffle=False)[1].tolist() != []


def test_a_missing_file_of_mnist_is_fetched_whole_or_not_at_all(images, tmp_path_factory):
    folder = tmp_path_factory.mktemp('empty') / 'mnist'
    url = images.as_uri() + '/'
    assert mnist_data_sets.read_data_sets(folder, validation_size=0, source_url=url).train.num_examples == 12
    (folder / 't10k-labels-idx1-ubyte.gz').unlink()
    with pytest.raises(OSError):
        mnist_data_sets.read_data_sets(folder, validation_size=0, source_url=url + 'nowhere/')
    assert len(list(folder.iterdir())) == 3


def test_all_names_of_a_part():
    """What `from tensorflow.contrib.data import *` takes."""
    names = contrib.find('data').__all__
    assert {'Dataset', 'batch_and_drop_remainder', 'prefetch_to_device'} <= set(names)
    assert {'data', 'layers', 'training'} <= set(contrib.names_of(''))
