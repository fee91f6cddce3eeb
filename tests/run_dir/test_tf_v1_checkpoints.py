"""Checkpoints of the old format V1: nothing that TensorFlow can read is moved."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import checkpoints
from estimator_trainer.tools.finished import chosen_checkpoint

v1 = tf.compat.v1
STEPS = (10, 20)


@pytest.fixture(params=[False, True], ids=['one file', 'shards'])
def saved(request, tmp_path):
    """(model_dir, the values of the last checkpoint), with variables in parts, slots and strings."""
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        table = v1.get_variable('table', [5, 3], partitioner=v1.fixed_size_partitioner(2))
        v1.get_variable('words', initializer=['a', 'b'])
        v1.get_variable('small', [], tf.float64)
        loss = tf.add_n([tf.reduce_sum(part**2) for part in table])
        train = v1.train.FtrlOptimizer(0.1).minimize(loss, step)
        saver = v1.train.Saver(write_version=v1.train.SaverDef.V1, sharded=request.param)
        session.run(v1.global_variables_initializer())
        for number in STEPS:
            session.run(train)
            session.run(step.assign(number))
            saver.save(session, str(tmp_path / 'model.ckpt'), number)
        variables = v1.global_variables()
        return tmp_path, {each.name: value for each, value in zip(variables, session.run(variables))}


def of_step(model_dir, step):
    return sorted(path for path in model_dir.glob(f'model.ckpt-{step}*') if path.suffix != '.meta')


def restored(prefix):
    """What a Saver restores into the same variables."""
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        table = v1.get_variable('table', [5, 3], partitioner=v1.fixed_size_partitioner(2))
        v1.get_variable('words', initializer=['c', 'd'])
        v1.get_variable('small', [], tf.float64)
        v1.train.FtrlOptimizer(0.1).minimize(tf.add_n([tf.reduce_sum(part**2) for part in table]), step)
        v1.train.Saver().restore(session, prefix)
        variables = v1.global_variables()
        return {each.name: value for each, value in zip(variables, session.run(variables))}


def test_the_newest_one_is_written_in_format_v2_too(saved):
    model_dir, values = saved
    before = {path: path.read_bytes() for path in model_dir.iterdir() if path.name != 'checkpoint'}
    checkpoints.set_aside_damaged(str(model_dir))
    assert not (model_dir / 'damaged').exists()
    assert {path: path.read_bytes() for path in before} == before
    prefix = checkpoints.latest(str(model_dir))
    assert prefix == str(model_dir / 'model.ckpt-20') and checkpoints.last_step(str(model_dir)) == 20
    assert checkpoints.damage(prefix) is None and checkpoints.digest(prefix)
    found = restored(prefix)
    assert found.keys() == values.keys()
    for name, value in values.items():
        np.testing.assert_array_equal(found[name], value)
    assert chosen_checkpoint.find(str(model_dir), None) == (prefix, 20)


def test_a_second_start_writes_nothing(saved):
    model_dir, _ = saved
    checkpoints.set_aside_damaged(str(model_dir))
    before = {path: path.read_bytes() for path in model_dir.iterdir()}
    checkpoints.set_aside_damaged(str(model_dir))
    assert {path: path.read_bytes() for path in model_dir.iterdir()} == before


def cut(path: pathlib.Path):
    path.write_bytes(path.read_bytes()[:-20])


def flip(path):
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize('harm', [cut, flip])
def test_a_damaged_one_gives_way_to_the_one_before(saved, harm, caplog):
    model_dir, _ = saved
    paths = of_step(model_dir, 20)
    harm(paths[-1])
    checkpoints.set_aside_damaged(str(model_dir))
    assert checkpoints.last_step(str(model_dir)) == 10 and not of_step(model_dir, 20)
    assert {path.name for path in paths} <= {path.name for path in (model_dir / 'damaged').iterdir()}
    assert 'model.ckpt-20 cannot be read' in caplog.text


def test_all_are_damaged(saved):
    model_dir, _ = saved
    for step in STEPS:
        cut(of_step(model_dir, step)[0])
    with pytest.raises(checkpoints.NoGoodCheckpoint, match='damaged'):
        checkpoints.set_aside_damaged(str(model_dir))


def test_evaluate_and_export_say_how_it_is_taken_up(saved):
    model_dir, _ = saved
    with pytest.raises(UsageError, match='has the old format V1 of TensorFlow; start the training command'):
        chosen_checkpoint.find(str(model_dir), None)
