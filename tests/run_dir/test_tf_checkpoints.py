"""checkpoints: real ones, damaged in every way."""

import contextlib
import errno
import logging
import os
import resource
import shutil

import pytest
import tensorflow as tf

from estimator_trainer.config.trainer_config import parse
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import bundle, checkpoint_errors, checkpoints

v1 = tf.compat.v1
STEPS = (10, 20, 30)


@pytest.fixture(scope='session')
def saved(tmp_path_factory):
    """A model_dir with checkpoints of STEPS, as Estimator leaves it; and `no_step`, without a step."""
    folder = tmp_path_factory.mktemp('saved')
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        weight = v1.get_variable('weight', [1000], initializer=v1.random_uniform_initializer())
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(max_to_keep=None)
        for number in STEPS:
            session.run(step.assign(number))
            saver.save(session, str(folder / 'model.ckpt'), number)
        v1.train.Saver([weight]).save(session, str(folder / 'no_step'), write_state=False)
    return folder


@pytest.fixture
def model_dir(saved, tmp_path):
    path = shutil.copytree(saved, tmp_path / 'model')
    name(path, STEPS[-1])
    return path


def name(model_dir, step):
    """Lets the file `checkpoint` name the one of a step."""
    v1.train.update_checkpoint_state(str(model_dir), f'model.ckpt-{step}', [f'model.ckpt-{number}' for number in STEPS])


def part(model_dir, kind, step=STEPS[-1]):
    (path,) = model_dir.glob(f'model.ckpt-{step}.{kind}*')
    return path


def truncate(path, left):
    with open(path, 'r+b') as file:
        file.truncate(left)


def flip(path):
    content = bytearray(path.read_bytes())
    content[30] ^= 1
    path.write_bytes(content)


def lose_step(model_dir):
    for kind in ('index', 'data'):
        shutil.copy(next(model_dir.glob(f'no_step.{kind}*')), part(model_dir, kind))


DAMAGES = {
    'data cut short': lambda folder: truncate(part(folder, 'data'), 2000),
    'data cut by a byte': lambda folder: truncate(part(folder, 'data'), 4007),
    'data empty': lambda folder: truncate(part(folder, 'data'), 0),
    'data missing': lambda folder: part(folder, 'data').unlink(),
    'a bit of the data': lambda folder: flip(part(folder, 'data')),
    'index cut short': lambda folder: truncate(part(folder, 'index'), 40),
    'index empty': lambda folder: truncate(part(folder, 'index'), 0),
    'index missing': lambda folder: part(folder, 'index').unlink(),
    'a bit of the index': lambda folder: flip(part(folder, 'index')),
    'all zeros': lambda folder: part(folder, 'data').write_bytes(bytes(4008)),
}


def test_a_whole_one_without_a_global_step_is_refused_and_stays(model_dir, warnings):
    lose_step(model_dir)
    before = content(model_dir)
    assert checkpoints.damage(str(model_dir / 'model.ckpt-30')) == checkpoints.NO_STEP
    with pytest.raises(checkpoints.NoGoodCheckpoint, match='model.ckpt-30 .*can be read, but it has no global_step'):
        checkpoints.set_aside_damaged(str(model_dir))
    assert content(model_dir) == before and warnings() == []


def steps_left(model_dir):
    return sorted(int(path.stem.split('-')[1]) for path in model_dir.glob('model.ckpt-*.index'))


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, 'estimator_trainer')
    return lambda: [record.getMessage() for record in caplog.records]


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


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob('*') if path.is_file()}


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


@contextlib.contextmanager
def no_permission(path):
    if os.geteuid() != 0:
        pytest.skip('needs root, to become somebody whom permissions stop')
    for parent in path.parents:
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    path.chmod(0)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        path.chmod(0o644)


@contextlib.contextmanager
def no_descriptors(path):
    del path
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open('/dev/null', os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        os.close(taken[0])


@contextlib.contextmanager
def input_output_error(path):
    os.rename(path, f'{path}.hidden')
    path.symlink_to('/proc/self/mem')  # whose first bytes nobody can read
    try:
        yield
    finally:
        path.unlink()
        os.rename(f'{path}.hidden', path)


@contextlib.contextmanager
def link_to_itself(path):
    os.rename(path, f'{path}.hidden')
    path.symlink_to(path.name)
    try:
        yield
    finally:
        path.unlink()
        os.rename(f'{path}.hidden', path)


@pytest.mark.parametrize(
    'refuse, kind, number',
    [
        (no_permission, 'index', errno.EACCES),
        (no_permission, 'data', errno.EACCES),
        (no_permission, 'checkpoint', errno.EACCES),
        (no_descriptors, 'index', errno.EMFILE),
        (link_to_itself, 'index', errno.ELOOP),
        (link_to_itself, 'data', errno.ELOOP),
        (link_to_itself, 'checkpoint', errno.ELOOP),
    ],
)
def test_what_cannot_be_read_now_is_left_where_it_is(model_dir, refuse, kind, number, warnings):
    before = content(model_dir)
    with refuse(model_dir / kind if kind == 'checkpoint' else part(model_dir, kind)):
        with pytest.raises(checkpoint_errors.CannotReadCheckpoint) as caught:
            checkpoints.set_aside_damaged(str(model_dir))
        with pytest.raises(checkpoint_errors.CannotReadCheckpoint):
            checkpoints.last_step(str(model_dir))
    assert caught.value.errno == number
    assert content(model_dir) == before and not any('moved to' in warning for warning in warnings())
    checkpoints.set_aside_damaged(str(model_dir))
    assert content(model_dir) == before


def test_what_may_pass_is_tried_again(model_dir, monkeypatch, warnings):
    before, pauses = content(model_dir), []
    with contextlib.ExitStack() as refused:
        # The size that is compared first is 0 there, and says nothing.
        monkeypatch.setattr(checkpoints.bundle, 'missing_data', lambda prefix, index: None)
        refused.enter_context(input_output_error(part(model_dir, 'data')))
        monkeypatch.setattr(
            checkpoint_errors.time, 'sleep', lambda secs: (pauses.append(secs), len(pauses) == 2 and refused.close())
        )
        checkpoints.set_aside_damaged(str(model_dir))
    assert pauses == [1, 2] and content(model_dir) == before
    assert len(warnings()) == 2 and 'Input/output error' in warnings()[0] and 'model.ckpt-30' in warnings()[0]


def test_what_does_not_pass_is_an_error(model_dir, monkeypatch):
    pauses = []
    monkeypatch.setattr(checkpoints.bundle, 'missing_data', lambda prefix, index: None)
    monkeypatch.setattr(checkpoint_errors.time, 'sleep', pauses.append)
    with input_output_error(part(model_dir, 'data')), pytest.raises(checkpoint_errors.CannotReadCheckpoint) as caught:
        checkpoints.set_aside_damaged(str(model_dir))
    assert (caught.value.errno, pauses) == (errno.EIO, [1, 2, 4, 8])
    assert caught.value.filename == str(part(model_dir, 'data'))


def test_data_whose_index_cannot_be_looked_at_are_not_removed(model_dir, monkeypatch):
    """os.path.exists takes for absent what it may not look at."""
    before = content(model_dir)
    monkeypatch.setattr(os, 'stat', lambda *args, **kwargs: (_ for _ in ()).throw(OSError(errno.ESTALE, 'stale')))
    checkpoints.remove_unfinished(str(model_dir))
    monkeypatch.undo()
    assert content(model_dir) == before


def test_a_checkpoint_is_verified_without_eager_execution_too(model_dir):
    flip(part(model_dir, 'data'))
    with tf.Graph().as_default():
        assert 'hecksum' in checkpoints.damage(str(model_dir / 'model.ckpt-30'))


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
