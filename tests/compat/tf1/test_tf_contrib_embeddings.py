"""Embeddings of tf.contrib.layers against their definitions, and other names of what TensorFlow has, each used once."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.tf1_names import contrib

v1 = tf.compat.v1
TABLE = np.float32([[1, 2], [3, 4], [5, 6], [7, 8]])
IDS = np.int64([[2, 0, 2], [0, 0, 0]])


def run(make):
    """What the tensors of make() are, and the names of the variables with a value of TABLE."""
    with tf.Graph().as_default(), v1.Session() as session:
        made = make()
        session.run([variable.assign(TABLE) for variable in v1.global_variables()])
        assert v1.get_collection(v1.GraphKeys.MODEL_VARIABLES) == v1.global_variables()
        return session.run(made), [variable.op.name for variable in v1.global_variables()]


@pytest.mark.parametrize('unique', [False, True])
def test_a_sequence_is_embedded_and_its_variable_reused(unique):
    embed = contrib.find('layers.embed_sequence')

    def make():
        first = embed(IDS, 4, 2, unique, scope='words')
        return first, embed(IDS[:1], scope='words', reuse=True)

    (first, again), names = run(make)
    assert first.tolist() == TABLE[IDS].tolist() and again.tolist() == TABLE[IDS[:1]].tolist()
    assert names == ['words/embeddings'] and run(lambda: embed(IDS, 4, 2))[1] == ['EmbedSequence/embeddings']
    with pytest.raises(ValueError, match='needs vocab_size and embed_dim, or reuse'):
        embed(IDS, 4)


def test_a_bag_of_words():
    encode = contrib.find('layers.python.layers.encoders.bow_encoder')
    found, names = run(lambda: encode(IDS, 4, 2))
    assert found.tolist() == [TABLE[2].tolist(), TABLE[0].tolist()]  # 0 is left out; without words it stands for them
    assert names == ['bow_encoder/embeddings']
    assert run(lambda: encode(IDS, 4, 2, sparse_lookup=False))[0].tolist() == TABLE[IDS].mean(1).tolist()
    sparse = v1.SparseTensorValue([[0, 0], [0, 1]], np.int64([0, 3]), [2, 2])
    assert run(lambda: encode(tf.SparseTensor(*sparse), 4, 2))[0].tolist() == [[4, 5], TABLE[0].tolist()]
    with pytest.raises(TypeError, match='takes a tensor'):
        run(lambda: encode(tf.SparseTensor(*sparse), 4, 2, sparse_lookup=False))
    with pytest.raises(ValueError, match='needs vocab_size'):
        encode(IDS, 0, 2)


def test_lookups_of_embeddings():
    safe, unique = (
        contrib.find(f'layers.{name}') for name in ('safe_embedding_lookup_sparse', 'embedding_lookup_unique')
    )
    with tf.Graph().as_default(), v1.Session() as session:
        ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], np.int64([1, 3, -1]), [3, 2])
        weights = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], np.float32([1, 3, 1]), [3, 2])
        mean, default, weighted, shards = session.run(
            [
                safe(TABLE, ids),
                safe(TABLE, ids, default_id=2),
                safe(TABLE, ids, weights, combiner='sum'),
                safe([TABLE[:2], TABLE[2:]], ids),
            ]
        )
        assert mean.tolist() == shards.tolist() == [[5, 6], [0, 0], [0, 0]]
        assert default.tolist() == [[5, 6], [5, 6], [5, 6]] and weighted[0].tolist() == [24, 28]
        rows = unique(TABLE, IDS)
        assert rows.shape == [2, 3, 2] and session.run(rows).tolist() == TABLE[IDS].tolist()
        by_rest = unique([TABLE[::2], TABLE[1::2]], IDS)  # id 2 is row 1 of the first
        assert session.run(by_rest).tolist() == TABLE[IDS].tolist()


def test_other_names_of_estimators(tmp_path):
    find, column = (lambda name: contrib.find(f'estimator.{name}')), tf.feature_column.numeric_column('x')
    features = {'x': np.float32([[1], [2]])}
    with tf.Graph().as_default(), v1.Session() as session:
        logits = [
            find('linear_logit_fn_builder')(3, [column]),
            find('dnn_logit_fn_builder')(3, [2], [column], tf.nn.relu, None, None, False),
        ]
        made = [find('call_logit_fn')(one, features, 'eval', {}, None) for one in logits]
        session.run(v1.global_variables_initializer())
        assert [each.shape for each in session.run(made)] == [(2, 3), (2, 3)]
        receive = find('build_raw_supervised_input_receiver_fn')(
            {'x': v1.placeholder(tf.float32, [None, 1])}, v1.placeholder(tf.float32, [None])
        )
        assert receive().features['x'].dtype == tf.float32
    estimator = v1.estimator.LinearRegressor([column], str(tmp_path))
    hook = find('make_stop_at_checkpoint_step_hook')(estimator, 2, wait_after_file_check_secs=0)
    estimator.train(lambda: tf.data.Dataset.from_tensors((features, [1.0, 2.0])).repeat(), [hook], max_steps=2)
    assert estimator.get_variable_value('global_step') == 2


def test_other_names_of_conditions_and_tpus():
    assert contrib.find('framework.smart_constant_value')(True) is True
    assert contrib.find('framework.smart_cond')(False, lambda: 1, lambda: 2) == 2
    assert contrib.find('tpu.core')(1) == 'device:TPU_REPLICATED_CORE:1'
    with tf.Graph().as_default() as graph:
        for name in ('rewrite', 'shard', 'batch_parallel'):
            contrib.find(f'tpu.{name}')(lambda x: 2 * x, [tf.ones([2])])
        contrib.find('tpu.outside_compilation')(lambda x: 2 * x, tf.ones([2]))
        for name in ('initialize_system', 'shutdown_system'):
            contrib.find(f'tpu.{name}')()
        kinds = {operation.type for operation in graph.get_operations()}
        assert {'TPUReplicateMetadata', 'ConfigureDistributedTPU', 'ShutdownDistributedTPU'} <= kinds
