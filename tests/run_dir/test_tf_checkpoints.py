"""checkpoints: real ones, damaged in every way."""

import os
import shutil

import pytest
import tensorflow as tf

from estimator_trainer.config.trainer_config import parse
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import bundle, checkpoints, foreign_checkpoints
from tests.run_dir.saved_checkpoints import DAMAGES, STEPS, content, flip, lose_step, name, part, steps_left, v1


def test_a_whole_one_without_a_global_step_is_refused_and_stays(model_dir, warnings):
    lose_step(model_dir)
    before = content(model_dir)
    assert checkpoints.damage(str(model_dir / 'model.ckpt-30')) == checkpoints.NO_STEP
    with pytest.raises(checkpoints.NoGoodCheckpoint, match='model.ckpt-30 .*can be read, but it has no global_step'):
        checkpoints.set_aside_damaged(str(model_dir))
    assert content(model_dir) == before and warnings() == []


@pytest.mark.parametrize('damage', DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_newest_one_is_set_aside(model_dir, damage, warnings):
    damage(model_dir)
    left = sorted(path.name for path in model_dir.glob('model.ckpt-30*'))
    checkpoints.set_aside_damaged(str(model_dir))
    assert tf.train.latest_checkpoint(str(model_dir)) == str(model_dir / 'model.ckpt-20')
    assert checkpoints.last_step(str(model_dir)) == 20
    assert tf.train.get_checkpoint_state(str(model_dir)).all_model_checkpoint_paths == [
        str(model_dir / f'model.ckpt-{step}') for step in (10, 20)
    ]
    assert sorted(os.listdir(model_dir / 'damaged')) == left
    assert steps_left(model_dir) == [10, 20]
    (warning,) = warnings()
    assert 'model.ckpt-30' in warning and str(model_dir / 'damaged') in warning and '\n' not in warning
    checkpoints.set_aside_damaged(str(model_dir))
    assert len(warnings()) == 1


@pytest.mark.parametrize('damage', DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_has_a_reason_in_one_line(model_dir, damage):
    assert checkpoints.damage(str(model_dir / 'model.ckpt-30')) is None
    damage(model_dir)
    reason = checkpoints.damage(str(model_dir / 'model.ckpt-30'))
    assert reason and '\n' not in reason


def test_two_damaged_ones_in_a_row(model_dir, warnings):
    DAMAGES['data cut short'](model_dir)
    flip(part(model_dir, 'data', 20))
    checkpoints.set_aside_damaged(str(model_dir))
    assert (checkpoints.last_step(str(model_dir)), steps_left(model_dir)) == (10, [10])
    assert len(warnings()) == 2


def test_good_ones_stay_as_they_are(model_dir, warnings):
    before = content(model_dir)
    checkpoints.set_aside_damaged(str(model_dir))
    assert content(model_dir) == before and warnings() == []


def test_an_older_one_that_the_user_has_named(model_dir):
    name(model_dir, 20)
    before = content(model_dir)
    checkpoints.set_aside_damaged(str(model_dir))
    assert content(model_dir) == before
    assert checkpoints.last_step(str(model_dir)) == 20


def test_a_damaged_one_that_was_named_gives_way_to_an_older_one(model_dir):
    name(model_dir, 20)
    flip(part(model_dir, 'data', 20))
    checkpoints.set_aside_damaged(str(model_dir))
    assert (checkpoints.last_step(str(model_dir)), steps_left(model_dir)) == (10, [10, 30])


def test_one_in_another_folder_that_is_named_is_taken_up_there(model_dir, tmp_path):
    other = tmp_path / 'other'
    other.mkdir()
    v1.train.update_checkpoint_state(str(other), str(model_dir / 'model.ckpt-20'))
    before = {**content(model_dir), **content(other)}
    checkpoints.set_aside_damaged(str(other))
    assert checkpoints.last_step(str(other)) == 20
    assert {**content(model_dir), **content(other)} == before


@pytest.mark.parametrize('listed', ['those of the other folder', 'one of the other folder'])
def test_a_saver_removes_none_of_another_folder(model_dir, tmp_path, listed):
    own = tmp_path / 'own'
    own.mkdir()
    if listed == 'one of the other folder':  # and goes on from its own one
        for path in model_dir.glob('model.ckpt-30*'):
            shutil.copy(path, own)
        v1.train.update_checkpoint_state(str(own), 'model.ckpt-30', [str(model_dir / 'model.ckpt-20'), 'model.ckpt-30'])
    else:
        others = [str(model_dir / f'model.ckpt-{step}') for step in (10, 20)]
        v1.train.update_checkpoint_state(str(own), others[-1], others)
    before, step = content(model_dir), 30 if listed == 'one of the other folder' else 20
    foreign_checkpoints.take_in(str(own))
    checkpoints.set_aside_damaged(str(own))
    state = tf.train.get_checkpoint_state(str(own))
    assert list(state.all_model_checkpoint_paths) == [str(own / f'model.ckpt-{step}')]
    assert checkpoints.last_step(str(own)) == step and content(model_dir) == before
    assert {path.name.partition('.')[0] for path in own.iterdir()} == {'checkpoint', 'model'}
    assert not list(own.glob('*.tmp'))


def test_a_list_of_ones_own_stays_as_it_is(model_dir):
    before = content(model_dir)
    foreign_checkpoints.take_in(str(model_dir))
    assert content(model_dir) == before


def test_damage_to_older_ones_is_nobodys_business(model_dir):
    flip(part(model_dir, 'data', 10))
    before = content(model_dir)
    checkpoints.set_aside_damaged(str(model_dir))
    assert content(model_dir) == before


@pytest.mark.parametrize('state', [None, b'', b'\0\xff{', b'model_checkpoint_path: "mod', b'other: 3\n'])
def test_a_state_file_that_says_nothing(model_dir, state):
    path = model_dir / 'checkpoint'
    path.unlink()
    if state is not None:
        path.write_bytes(state)
    DAMAGES['data cut short'](model_dir)
    checkpoints.set_aside_damaged(str(model_dir))
    assert tf.train.latest_checkpoint(str(model_dir)) == str(model_dir / 'model.ckpt-20')


@pytest.mark.parametrize('has_state', [True, False])
def test_none_can_be_read(model_dir, has_state):
    if not has_state:
        (model_dir / 'checkpoint').unlink()
    for step in STEPS:
        flip(part(model_dir, 'data', step))
    for _ in range(2):  # the same command again does not begin at step 0 either
        with pytest.raises(checkpoints.NoGoodCheckpoint, match='no checkpoint of .*damaged'):
            checkpoints.set_aside_damaged(str(model_dir))
    assert len(os.listdir(model_dir / 'damaged')) == 9


def test_there_are_none(tmp_path):
    checkpoints.set_aside_damaged(str(tmp_path / 'no_such'))
    checkpoints.set_aside_damaged(str(tmp_path))
    assert os.listdir(tmp_path) == [] and checkpoints.last_step(str(tmp_path)) == 0


def test_what_a_task_that_was_killed_while_saving_leaves_is_no_checkpoint(model_dir):
    shutil.copy(part(model_dir, 'data'), model_dir / 'model.ckpt-40.data-00000-of-00001')
    (model_dir / 'model.ckpt-40_temp').mkdir()
    (model_dir / 'model.ckpt-40.index.tempstate123').touch()
    before = content(model_dir)
    checkpoints.set_aside_damaged(str(model_dir))
    assert content(model_dir) == before and checkpoints.last_step(str(model_dir)) == 30


def test_what_is_unfinished_goes_and_nothing_else(model_dir):
    before = content(model_dir)
    (model_dir / 'model.ckpt-40.data-00000-of-00001').write_bytes(b'half')
    (model_dir / 'model.ckpt-40.index.tempstate123').touch()
    (model_dir / 'model.ckpt-40_temp').mkdir()
    (model_dir / 'model.ckpt-40_temp' / 'part-00000-of-00001.data-00000-of-00001').write_bytes(b'half')
    checkpoints.remove_unfinished(str(model_dir))
    assert content(model_dir) == before


def test_a_checkpoint_whose_index_is_not_listed_yet_keeps_its_data(model_dir, monkeypatch):
    before = content(model_dir)
    listed = [name for name in os.listdir(model_dir) if not name.endswith('.index')]
    monkeypatch.setattr(checkpoints.checkpoint_errors, 'names', lambda folder: listed)
    checkpoints.remove_unfinished(str(model_dir))
    assert content(model_dir) == before


def absolute(model_dir, folder):
    """The state file as Estimator writes it, of a model_dir that was at `folder`."""
    v1.train.update_checkpoint_state(
        str(model_dir), str(folder / 'model.ckpt-30'), [str(folder / f'model.ckpt-{step}') for step in STEPS]
    )


def test_a_model_dir_that_was_moved(model_dir, tmp_path):
    absolute(model_dir, model_dir)
    moved = tmp_path / 'moved'
    os.rename(model_dir, moved)
    checkpoints.set_aside_damaged(str(moved))
    assert tf.train.latest_checkpoint(str(moved)) == str(moved / 'model.ckpt-30')
    assert checkpoints.last_step(str(moved)) == 30 and not (moved / 'damaged').exists()


def test_the_model_dir_that_a_copy_was_made_of_is_left_alone(model_dir, tmp_path):
    absolute(model_dir, model_dir)
    copy = shutil.copytree(model_dir, tmp_path / 'copy')
    flip(part(model_dir, 'data'))
    before = content(model_dir)
    checkpoints.set_aside_damaged(str(copy))
    assert tf.train.latest_checkpoint(str(copy)) == str(copy / 'model.ckpt-30')
    assert content(model_dir) == before


def test_a_relative_model_dir(model_dir, monkeypatch, warnings):
    absolute(model_dir, model_dir)
    monkeypatch.chdir(model_dir.parent)
    flip(part(model_dir, 'data'))
    checkpoints.set_aside_damaged('model')
    assert checkpoints.last_step('model') == 20 and len(warnings()) == 1


@pytest.mark.parametrize('folder', ['run[1]', 'run*', 'run?', 'run\\1'])
def test_a_folder_that_tensorflow_would_take_for_a_pattern_is_refused(tmp_path, folder):
    with pytest.raises(UsageError, match='pattern'):
        parse(['trainer', f'--model_dir={tmp_path / folder}', '--max_steps=5'])


# What cannot be read now is left where it is. The errors are real ones.


def test_a_checkpoint_is_verified_without_eager_execution_too(model_dir):
    flip(part(model_dir, 'data'))
    with tf.Graph().as_default():
        assert 'hecksum' in checkpoints.damage(str(model_dir / 'model.ckpt-30'))


def test_the_step_of_model_to_estimator(tmp_path):
    checkpoint = tf.train.Checkpoint(estimator_global_step=tf.Variable(5, dtype=tf.int64))
    prefix = checkpoint.write(str(tmp_path / 'model.ckpt-5'))
    assert (checkpoints.damage(prefix), checkpoints.step_of(prefix)) == (None, 5)


def test_data_of_another_save_do_not_have_the_checksums_of_the_index(model_dir):
    prefix = str(model_dir / f'model.ckpt-{STEPS[-1]}')
    index = bundle.read(prefix)
    assert not bundle.wrong_checksum(prefix, index)
    shutil.copyfile(part(model_dir, 'data', STEPS[0]), part(model_dir, 'data'))
    assert bundle.missing_data(prefix, index) is None  # they have the same size
    assert bundle.wrong_checksum(prefix, index)
