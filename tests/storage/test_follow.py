"""What one task sends and another one follows, with a store in memory and threads that were not started."""

import errno
import json
import os
import types

import pytest

pytest.importorskip('obstore')

from estimator_trainer import exit_codes  # noqa: E402
from estimator_trainer.storage import follow, names, share, store  # noqa: E402
from tests import fakes  # noqa: E402
from tests.storage.machines import URL, Machine, Watched  # noqa: E402

CHIEF = share.Share('worker:0', 'chief', has_evaluator=True)
WORKER = share.Share('worker:1', 'worker', has_evaluator=True)
EVALUATOR = share.Share('evaluator:0', 'evaluator', has_evaluator=True)
BOUNDS = fakes.config(max_unpushed_secs=100, lost_peer_secs=30)


@pytest.fixture
def remote():
    return Watched()


@pytest.fixture(autouse=True)
def whole(monkeypatch):
    monkeypatch.setattr(follow.snapshot, 'is_of_one_save', lambda prefix: True)


@pytest.fixture
def chief(tmp_path, remote):
    return Machine(tmp_path / 'chief', remote, CHIEF).start()


def follower(folder, remote, mine):
    folder.mkdir()
    return follow.Follower(remote, str(folder), mine, BOUNDS, clock=lambda: 0)


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file()}


def checkpoint(step):
    return {f'model.ckpt-{step}.{part}' for part in ('data-00000-of-00001', 'meta', 'index')}


def named(folder):
    return names.named_by((folder / 'checkpoint').read_bytes())


def start(chief, step):
    chief.write('.start.json', json.dumps({'start': f'from {step}', 'checkpoint': step and f'model.ckpt-{step}'}))
    chief.push()


def test_a_worker_gets_the_checkpoint_of_the_start(tmp_path, remote, chief):
    chief.save(10, 'first')
    chief.push()
    worker = follower(tmp_path / 'worker', remote, WORKER)
    worker.begin()
    assert files(tmp_path / 'worker') == checkpoint(10) | {'checkpoint', 'config.json'}
    start(chief, 10)
    chief.save(20, 'second')
    chief.push()
    worker.look()
    assert files(tmp_path / 'worker') == checkpoint(10) | {'checkpoint', 'config.json', '.start.json'}
    assert named(tmp_path / 'worker') == 'model.ckpt-10'


def test_a_start_from_step_0_leaves_no_checkpoint_named(tmp_path, remote, chief):
    chief.save(10, 'first')
    chief.push()
    worker = follower(tmp_path / 'worker', remote, WORKER)
    worker.begin()
    start(chief, 0)
    worker.look()
    assert {'checkpoint', '.start.json'} & files(tmp_path / 'worker') == {'.start.json'}


def test_a_start_of_an_earlier_chief_is_gone_when_the_next_one_has_begun(tmp_path, remote, chief):
    chief.save(10, 'first')
    start(chief, 10)
    chief.lease.release()
    again = Machine(tmp_path / 'again', remote, CHIEF).start()
    again.push()
    assert names.START not in remote.contents()


def test_an_evaluator_gets_each_checkpoint_and_leaves_old_ones(tmp_path, remote, chief):
    evaluator = follower(tmp_path / 'evaluator', remote, EVALUATOR)
    evaluator.begin()
    for step in (10, 20, 30):
        chief.save(step, f'{step}')
        chief.push()
        evaluator.look()
        assert named(tmp_path / 'evaluator') == f'model.ckpt-{step}'
    kept = checkpoint(20) | checkpoint(30)
    assert files(tmp_path / 'evaluator') == kept | {'checkpoint', 'config.json'}  # logs are fetched more rarely


def test_files_of_the_job_stay(tmp_path, remote, chief):
    evaluator = follower(tmp_path / 'evaluator', remote, EVALUATOR)
    for name in ('vocab.index', 'tokens.meta', 'best.data-00000-of-00001'):
        (tmp_path / 'evaluator' / name).write_text('of the job')
    for step in (10, 20, 30, 40):
        chief.save(step, f'state {step}')
        chief.push()
        evaluator.look()
    assert {'vocab.index', 'tokens.meta', 'best.data-00000-of-00001'} <= files(tmp_path / 'evaluator')
    assert not checkpoint(10) & files(tmp_path / 'evaluator')


def test_a_checkpoint_that_is_owed_stays(tmp_path, remote, chief):
    evaluator = follower(tmp_path / 'evaluator', remote, EVALUATOR)
    (tmp_path / 'evaluator' / 'eval').mkdir()
    (tmp_path / 'evaluator' / 'eval' / 'last.json').write_text('{"checkpoint": "model.ckpt-10", "done": false}')
    for step in (10, 20, 30):
        chief.save(step, f'{step}')
        chief.push()
        evaluator.look()
    assert checkpoint(10) <= files(tmp_path / 'evaluator')


def test_a_checkpoint_that_is_deleted_meanwhile_is_passed_over(tmp_path, remote, chief, monkeypatch):
    chief.save(10, 'first')
    chief.push()
    evaluator = follower(tmp_path / 'evaluator', remote, EVALUATOR)
    chunks = remote.chunks

    def deleted(name):
        if name == 'model.ckpt-10.meta':
            chief.save(20, 'second')
            for path in chief.run.glob('model.ckpt-10.*'):
                path.unlink()
            chief.push()
        return chunks(name)

    monkeypatch.setattr(remote, 'chunks', deleted)
    evaluator.look()
    assert 'checkpoint' not in files(tmp_path / 'evaluator')
    evaluator.look()
    assert named(tmp_path / 'evaluator') == 'model.ckpt-20'


def test_the_end_of_training_is_told_after_the_last_checkpoint(tmp_path, remote, chief):
    evaluator = follower(tmp_path / 'evaluator', remote, EVALUATOR)
    chief.save(10, 'last')
    chief.write('training.json', json.dumps({'state': 'ended', 'checkpoint_step': 10}))
    chief.push()
    index = store.Store.read(remote, 'model.ckpt-10.index')[0]
    store.Store.delete(remote, 'model.ckpt-10.index')  # it is being replaced
    evaluator.look()
    assert 'training.json' not in files(tmp_path / 'evaluator')
    store.Store.write(remote, 'model.ckpt-10.index', index, None)
    evaluator.look()
    assert json.loads((tmp_path / 'evaluator' / 'training.json').read_text())['state'] == 'ended'


def test_the_evaluator_hears_that_the_chief_lives(tmp_path, remote, chief):
    evaluator = follower(tmp_path / 'evaluator', remote, EVALUATOR)
    chief.write('training.json', json.dumps({'state': 'training', 'generation': chief.lease.gang, 'beat': 1}))
    chief.push()
    beats = []
    for _ in range(3):
        evaluator.look()
        beats.append(json.loads((tmp_path / 'evaluator' / 'training.json').read_text())['beat'])
        chief.lease.renew()
    assert len(set(beats)) == 3


def test_what_the_evaluator_decides_reaches_the_chief(tmp_path, remote, chief):
    other = Machine(tmp_path / 'evaluator', remote, EVALUATOR).start()
    other.write('eval/stop.json', '{"step": 10}')
    other.write('report.html', 'page')
    other.push()
    following = follow.Follower(remote, str(chief.run), CHIEF, BOUNDS, clock=lambda: 0)
    following.look()
    assert (chief.run / 'eval' / 'stop.json').read_text() == '{"step": 10}'
    chief.save(10, 'first')
    chief.push()
    assert {'eval/stop.json', 'report.html'} <= remote.contents().keys()  # the chief has no report.html
    (other.run / 'eval' / 'stop.json').unlink()
    other.push()
    following.look()
    assert not (chief.run / 'eval' / 'stop.json').exists()


def test_an_evaluator_on_another_machine_goes_on(tmp_path, remote, chief):
    chief.save(10, 'first')
    chief.push()
    first = Machine(tmp_path / 'one', remote, EVALUATOR).start()
    first.write('eval/metrics.jsonl', 'lines')
    first.write('export/best/17/saved_model.pb', 'export 17')
    first.write('eval/last.json', '{"checkpoint": "model.ckpt-10", "done": false}')
    first.push()
    first.lease.release()
    second = Machine(tmp_path / 'two', remote, EVALUATOR).start()
    owed = {'eval/metrics.jsonl', 'export/best/17/saved_model.pb', 'eval/last.json'} | checkpoint(10)
    assert files(second.run) == owed
    second.push()
    assert checkpoint(10) <= remote.contents().keys()


def test_a_worker_sends_its_profiles_alone(tmp_path, remote, chief):
    machine = Machine(tmp_path / 'worker', remote, WORKER)
    from estimator_trainer.storage import lease, mirror, scratch_state

    sends = mirror.Mirror(
        remote, lease.NoLease(), machine.scratch, scratch_state.ScratchState(machine.scratch, URL), None, 3, WORKER
    )
    machine.write('checkpoint', 'model_checkpoint_path: "model.ckpt-10"\n')
    machine.write('plugins/profile/steps-1-2/worker-1.xplane.pb', 'profile')
    assert sends.push() and sends.operations == 1
    assert remote.contents()['plugins/profile/steps-1-2/worker-1.xplane.pb'] == 'profile'


@pytest.mark.parametrize('mine', [EVALUATOR, WORKER])
@pytest.mark.parametrize(
    'number, code', [(errno.ESTALE, exit_codes.FILES_AWAY), (errno.ENOSPC, exit_codes.CANNOT_WRITE)]
)
def test_a_scratch_folder_that_fails_ends_the_task_after_a_while(tmp_path, remote, monkeypatch, mine, number, code):
    clock = fakes.Clock()
    following = follow.Follower(remote, str(tmp_path), mine, BOUNDS, clock=clock)
    following._over = types.SimpleNamespace(wait=lambda secs: clock.sleep(secs))
    ends = 30

    def look():
        if ends is None or clock.now < ends:
            raise OSError(number, os.strerror(number), 'checkpoint')
        following._over = types.SimpleNamespace(wait=lambda secs: True)

    monkeypatch.setattr(following, 'look', look)
    following._run()
    assert following.verdict is None
    ends, following._over = None, types.SimpleNamespace(wait=lambda secs: clock.sleep(secs))
    following._run()
    assert following.verdict.code == code and 30 + 60 <= clock.now < 30 + 120


def test_a_store_that_is_away_ends_an_evaluator_and_no_worker(tmp_path, remote):
    now = iter(range(0, 1000, 10))
    for mine, ends in ((EVALUATOR, True), (WORKER, False)):
        following = follow.Follower(remote, str(tmp_path), mine, BOUNDS, clock=lambda: next(now))
        for _ in range(20):
            following._failed(store.StoreUnavailable('no answer'))
        assert (following.verdict is not None) == ends
