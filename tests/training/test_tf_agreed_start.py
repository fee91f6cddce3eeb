"""training.agreed_start: what a task finds of the chief's start in its own model_dir."""

import errno
import json
import os
import shutil

import pytest
import tensorflow as tf

from estimator_trainer.run_dir import checkpoints, protocol
from estimator_trainer.training import agreed_start

v1 = tf.compat.v1


class Time:
    """A clock that moves while somebody sleeps; then something happens in the folder."""

    def __init__(self, happens=lambda now: None):
        self.now, self._happens = 0.0, happens

    def __call__(self):
        return self.now

    def sleep(self, secs):
        self.now += secs
        self._happens(self.now)


@pytest.fixture
def model_dir(tmp_path):
    folder = tmp_path / 'model'
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.get_or_create_global_step()
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(save_relative_paths=True)
        for step in (10, 20):
            saver.save(session, str(folder / 'model.ckpt'), step)
    return folder


def announced(model_dir, step=20):
    start = {
        'start': 'of this start',
        'step': step,
        'checkpoint': step and f'model.ckpt-{step}',
        'digest': step and checkpoints.digest(str(model_dir / f'model.ckpt-{step}')),
    }
    protocol.write_json(str(model_dir / agreed_start.FILE), start)
    return start


def look(folder, start, time=None):
    time = time or Time()
    return agreed_start.look(str(folder), start, 5, time, time.sleep)


def test_the_same_folder(model_dir):
    time = Time()
    assert look(model_dir, announced(model_dir), time) == (0, '') and time.now == 0


def test_the_same_folder_without_a_checkpoint(tmp_path):
    assert look(tmp_path, announced(tmp_path, step=None)) == (0, '')


@pytest.mark.parametrize('other', ['none', 'empty', 'a copy of an earlier start'])
def test_another_folder(model_dir, tmp_path, other):
    folder = tmp_path / 'other'
    if other == 'empty':
        folder.mkdir()
    elif other != 'none':
        announced(model_dir)
        shutil.copytree(model_dir, folder)
    start, time = {**announced(model_dir), 'start': 'of another start'}, Time()
    code, problem = look(folder, start, time)
    assert code == 64 and 'not shared' in problem and str(folder) in problem and '\n' not in problem
    assert 5 <= time.now < 6


def test_a_store_that_has_not_brought_the_start_may_do_so_later(model_dir, tmp_path, monkeypatch):
    folder = tmp_path / 'scratch'
    store = {'folder': str(folder), 'flags': {'model_dir': 's3://bucket/run'}, 'is_copy': True}
    monkeypatch.setenv(protocol.STORE, json.dumps(store))
    code, problem = look(folder, announced(model_dir))
    assert code == 200 and 's3://bucket/run' in problem and 'not shared' not in problem


def test_a_listing_that_lags_is_waited_for(model_dir):
    start = announced(model_dir)
    os.rename(model_dir / agreed_start.FILE, model_dir / 'hidden')

    def appears(now):
        if now >= 3 and (model_dir / 'hidden').exists():
            os.rename(model_dir / 'hidden', model_dir / agreed_start.FILE)

    time = Time(appears)
    assert look(model_dir, start, time) == (0, '') and time.now == 3


@pytest.mark.parametrize('change', ['another is named', 'its index is missing', 'another content'])
def test_another_checkpoint_in_the_same_folder(model_dir, change):
    start = announced(model_dir)
    if change == 'another is named':
        v1.train.update_checkpoint_state(str(model_dir), 'model.ckpt-10', ['model.ckpt-10'])
    elif change == 'its index is missing':
        (model_dir / 'model.ckpt-20.index').unlink()
    else:
        shutil.copy(model_dir / 'model.ckpt-20.data-00000-of-00001', model_dir / 'model.ckpt-20.index')
    code, problem = look(model_dir, start)
    assert code == 200 and 'model.ckpt-20' in problem and 'lags' in problem


def test_a_file_that_cannot_be_read(model_dir, monkeypatch):
    def refuses(prefix):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), f'{prefix}.index')

    start = announced(model_dir)
    monkeypatch.setattr(checkpoints, 'digest', refuses)
    code, problem = look(model_dir, start)
    assert code == 74 and 'Permission denied' in problem and 'model.ckpt-20.index' in problem
