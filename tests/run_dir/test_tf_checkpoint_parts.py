"""checkpoints: those of several files, and of variables in slices."""

import os

import pytest
import tensorflow as tf

from estimator_trainer.run_dir import checkpoints
from tests.run_dir.saved_checkpoints import STEPS, flip, truncate, v1


@pytest.fixture
def in_two_files(model_dir):
    """The data files of the newest checkpoint, of step 40: one of each of two parameter servers."""
    prefix = str(model_dir / 'model.ckpt-40')
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        weights = [v1.get_variable(f'weight{number}', [1000]) for number in (0, 1)]
        session.run(v1.global_variables_initializer())
        session.run(step.assign(40))
        savers = {'a': v1.train.Saver([step, weights[0]]), 'b': v1.train.Saver(weights[1:])}
        parts = [
            saver.save(session, f'{prefix}_{name}', write_meta_graph=False, write_state=False)
            for name, saver in savers.items()
        ]
        session.run(tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix))
    v1.train.update_checkpoint_state(
        str(model_dir), 'model.ckpt-40', [f'model.ckpt-{number}' for number in (*STEPS, 40)]
    )
    return sorted(model_dir.glob('model.ckpt-40.data-*'))


@pytest.mark.parametrize('number', [0, 1])
@pytest.mark.parametrize('harm', [lambda path: truncate(path, 2), flip, os.unlink], ids=['cut', 'flipped', 'missing'])
def test_a_checkpoint_of_two_parameter_servers_with_one_file_damaged(model_dir, in_two_files, number, harm):
    assert [path.name[-14:] for path in in_two_files] == ['00000-of-00002', '00001-of-00002']
    assert checkpoints.damage(str(model_dir / 'model.ckpt-40')) is None
    assert checkpoints.last_step(str(model_dir)) == 40
    harm(in_two_files[number])
    checkpoints.set_aside_damaged(str(model_dir))
    assert checkpoints.last_step(str(model_dir)) == 30
    assert not list(model_dir.glob('model.ckpt-40*'))


def test_what_two_parameter_servers_have_not_finished_is_removed(model_dir, in_two_files):
    os.unlink(model_dir / 'model.ckpt-40.index')
    checkpoints.remove_unfinished(str(model_dir))
    assert not list(model_dir.glob('model.ckpt-40*'))
    assert checkpoints.damage(str(model_dir / 'model.ckpt-30')) is None


@pytest.fixture
def partitioned(tmp_path):
    """The prefix of a checkpoint with a variable in three slices, and the slots of each."""
    prefix = str(tmp_path / 'model.ckpt-7')
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        with v1.variable_scope('linear'):
            table = v1.get_variable('table', [1000, 8], partitioner=v1.fixed_size_partitioner(3))
            loss = tf.add_n([tf.reduce_sum(each**2) for each in table])
            train = v1.train.FtrlOptimizer(0.1).minimize(loss, step)  # in the scope, as canned Estimators do it
        session.run(v1.global_variables_initializer())
        session.run(train)
        v1.train.Saver().save(session, prefix, write_meta_graph=False, write_state=False)
    return prefix


def test_a_partitioned_variable_and_the_slots_of_its_slices_are_whole(partitioned):
    names = tf.train.load_checkpoint(partitioned).get_variable_to_shape_map()
    assert names['linear/table/part_1/Ftrl'] == [1000, 8]  # so TensorFlow says; a third of that is stored
    assert checkpoints.damage(partitioned) is None


@pytest.mark.parametrize('place', [0.1, 0.3, 0.5, 0.7, 0.9])
def test_damage_to_a_slice_is_found(partitioned, place):
    path = f'{partitioned}.data-00000-of-00001'
    with open(path, 'r+b') as file:
        file.seek(int(os.path.getsize(path) * place))
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    assert 'hecksum' in checkpoints.damage(partitioned)
