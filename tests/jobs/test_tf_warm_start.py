"""jobs.warm_start: which variables of a graph begin with values of a checkpoint."""

import pytest
import tensorflow as tf

from estimator_trainer.jobs import warm_start

v1 = tf.compat.v1
NAMES = ('hidden/kernel', 'hidden/bias')


@pytest.fixture(scope='module')
def old(tmp_path_factory):
    """A checkpoint as TensorFlow 1 writes it."""
    with tf.Graph().as_default(), v1.Session() as session:
        variables = {name: v1.get_variable(name, [2], initializer=v1.ones_initializer()) for name in NAMES}
        v1.get_variable('mean', [2], initializer=v1.ones_initializer(), trainable=False)
        session.run(v1.global_variables_initializer())
        assert len(variables) == 2
        return v1.train.Saver().save(session, str(tmp_path_factory.mktemp('old') / 'model.ckpt'), 7)


def variables(*names, **options):
    return {name: v1.get_variable(name, [2], **options) for name in names}


def test_what_the_optimizer_has_is_not_asked_for(tmp_path):
    def trained():
        variables('w')
        v1.get_variable('bn/moving_mean', [2], trainable=False)
        loss = tf.reduce_sum(v1.global_variables()[0])
        v1.train.AdamOptimizer().minimize(loss, v1.train.get_or_create_global_step(), v1.trainable_variables())

    with tf.Graph().as_default(), v1.Session() as session:
        trained()
        session.run(v1.global_variables_initializer())
        path = v1.train.Saver().save(session, str(tmp_path / 'model.ckpt'))
    with tf.Graph().as_default():
        trained()
        v1.train.init_from_checkpoint(path, {'w': v1.trainable_variables()[0]})
        assert warm_start.sentence().endswith(
            'none. WARNING: the checkpoint holds bn/moving_mean as well, which begin anew'
        )


@pytest.mark.parametrize('use_resource', [True, False])
def test_what_is_loaded_and_what_is_not(old, use_resource):
    with tf.Graph().as_default(), v1.Session() as session:
        mine = variables(*NAMES, 'logits/kernel', use_resource=use_resource)
        mean = variables('mean', trainable=False, use_resource=use_resource)
        v1.train.get_or_create_global_step()
        assert warm_start.sentence() == ''
        v1.train.init_from_checkpoint(old, {'hidden/kernel': mine['hidden/kernel']})
        assert warm_start.sentence() == (
            f'warm start: 1 of 3 trainable variables begin with the values of {old}; not loaded: hidden/bias, '
            'logits/kernel. WARNING: the checkpoint holds mean as well, which begin anew'
        )
        v1.train.init_from_checkpoint(old, {'hidden/bias': mine['logits/kernel'], **mean})
        v1.train.init_from_checkpoint(old, {'hidden/bias': mine['hidden/bias']})
        assert warm_start.sentence().endswith(
            f'3 of 3 trainable variables and 1 other begin with the values of {old}; not loaded: none'
        )
        session.run(v1.global_variables_initializer())
        assert session.run(mine['hidden/bias']).tolist() == [1, 1]


def test_what_the_model_no_longer_has(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        table = variables('table', partitioner=v1.fixed_size_partitioner(2))['table']
        v1.train.get_or_create_global_step()
        mean = variables('bn/moving_mean', trainable=False)['bn/moving_mean']
        old = variables('old')['old']
        v1.train.AdamOptimizer().minimize(tf.reduce_sum(table * mean * old))
        session.run(v1.global_variables_initializer())
        path = v1.train.Saver().save(session, str(tmp_path / 'model.ckpt'), 7)
        assert warm_start.left_behind(path) == ''
    with tf.Graph().as_default():
        variables('table', partitioner=v1.fixed_size_partitioner(2))
        assert warm_start.left_behind(path) == (
            'WARNING: model.ckpt-7 holds bn/moving_mean, old, which the model no longer has: they are not in the next '
            'checkpoints'
        )


def test_what_is_loaded_into_the_variables_of_several_replicas(old):
    """init_from_checkpoint gives the variable of all replicas another initializer, and not those of single replicas."""
    strategy = tf.distribute.MirroredStrategy(['/cpu:0'])

    def model_fn():
        mine = variables(*NAMES)
        v1.train.init_from_checkpoint(old, {'hidden/kernel': mine['hidden/kernel']})

    with tf.Graph().as_default(), strategy.scope():
        strategy.extended.call_for_each_replica(model_fn)
        assert warm_start.sentence().startswith(
            f'warm start: 1 of 2 trainable variables begin with the values of {old}'
        )


def test_warm_start_of_an_estimator_and_long_lists(old):
    with tf.Graph().as_default():
        variables(*NAMES, *(f'v{number:02}' for number in range(25)))
        v1.train.warm_start(old, 'hidden/.*')
        assert warm_start.sentence().startswith(
            f'warm start: 2 of 27 trainable variables begin with the values of {old}; '
        )
        assert warm_start.sentence().endswith('v18, v19 and 5 more')


def test_a_table_whose_rows_a_vocabulary_names(old, tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        table = v1.get_variable('table', [2, 1], initializer=v1.ones_initializer())
        session.run(table.initializer)
        before = v1.train.Saver().save(session, str(tmp_path / 'model.ckpt'))
    for name, words in (('old.txt', 'a\nb\n'), ('new.txt', 'b\nc\n')):
        (tmp_path / name).write_text(words)
    info = tf.estimator.VocabInfo(str(tmp_path / 'new.txt'), 2, 0, str(tmp_path / 'old.txt'))
    with tf.Graph().as_default():
        v1.get_variable('table', [2, 1])
        v1.train.warm_start(before, 'table', {'table': info})
        assert warm_start.sentence() == (
            f'warm start: 1 of 1 trainable variables begin with the values of {before}; not loaded: none'
        )
