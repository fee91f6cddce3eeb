"""checkpoints: files that cannot be read now are left where they are."""

import contextlib
import errno
import os
import resource

import pytest

from estimator_trainer.run_dir import checkpoint_errors, checkpoints
from tests.run_dir.saved_checkpoints import content, part


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
