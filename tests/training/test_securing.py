"""What a task knows when it decides by --secure, and how the run gets its key."""

import json
import os
import threading
import time

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.config import trainer_config
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import JobError
from estimator_trainer.run_dir import file_names, protocol
from estimator_trainer.secure import entering, run_key
from estimator_trainer.training import plan as planning
from estimator_trainer.training import securing

WORKERS = {'worker': ['a:2222', 'b:2222']}


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """One that can do everything, and has no GPUs."""
    monkeypatch.setattr(entering, 'is_command', True)
    monkeypatch.setattr(securing.isolate, 'kinds_that_work', lambda: ('net',))
    monkeypatch.setattr(securing.gpus.glob, 'glob', lambda pattern: [])


@pytest.fixture
def plan(tmp_path):
    """(flags, the cluster, the task) -> a Plan."""

    def make(*flags, cluster=WORKERS, task=('worker', 0)):
        config = trainer_config.parse(['test', '--max_steps=1', f'--model_dir={tmp_path}/run', *flags])
        text = json.dumps({'cluster': cluster, 'task': {'type': task[0], 'index': task[1]}})
        return planning.make(config, {'TF_CONFIG': text})

    return make


def decided(plan, **environ):
    return securing.decide(plan, environ)


@pytest.mark.parametrize('task', [('worker', 0), ('worker', 1), ('evaluator', 0)])
def test_each_task_of_several_machines_is_secured(plan, task):
    assert decided(plan(task=task)).is_on


def test_parameter_servers_are_machines_too(plan):
    cluster = {'chief': ['a:1'], 'ps': ['b:1']}
    assert all(decided(plan(cluster=cluster, task=(role, 0))).is_on for role in ('chief', 'ps'))


@pytest.mark.parametrize(
    'cluster',
    [{'worker': ['a:1', 'a:2']}, {'worker': ['localhost:1', '127.0.0.1:2']}, {'worker': ['a:1'], 'evaluator': ['b:1']}],
)
def test_where_nobody_opens_a_port_to_another_machine_there_is_nothing_to_say(plan, cluster):
    assert decided(plan(cluster=cluster)) == (securing.decision.Decision(False))


def test_an_isolated_cluster_is_left_alone(plan):
    assert decided(plan(), **{protocol.ISOLATED: '1'}) == securing.decision.Decision(False)
    alone = decided(plan('--secure=required'), **{protocol.ISOLATED: '1'})
    assert alone == securing.decision.Decision(False, securing.decision.ISOLATED)


@pytest.mark.parametrize(
    'flag', ['--data_dir=s3://bucket/data', '--track=mlflow:https://tracker', '--metrics_port=9400']
)
def test_flags_that_need_a_network(plan, flag):
    assert flag.partition('=')[0] in decided(plan(flag)).note
    with pytest.raises(UsageError, match='^--secure=required: --.* needs a network'):
        decided(plan(flag, '--secure=required'))


@pytest.mark.parametrize('flag', ['--track=mlflow:folder', '--track=tensorboard-hparams', '--data_dir=data'])
def test_flags_that_do_not(plan, flag, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert decided(plan(flag)).is_on


def test_gpus_are_refused_to_synchronous_workers_only(plan, monkeypatch):
    monkeypatch.setattr(securing.gpus.glob, 'glob', lambda pattern: ['/dev/nvidia0'])
    assert 'NCCL' in decided(plan()).note
    assert decided(plan(), CUDA_VISIBLE_DEVICES='').is_on
    assert decided(plan(cluster={'chief': ['a:1'], 'ps': ['b:1']}, task=('chief', 0))).is_on


def test_the_key_must_not_be_in_a_store(plan, tmp_path):
    assert 'the model_dir is in a store' in decided(plan(), **{protocol.STORE: '{}'}).note
    assert decided(plan(f'--secure_key_file={tmp_path}/key'), **{protocol.STORE: '{}'}).is_on
    assert decided(plan(), **{protocol.STORE: '{}', protocol.RUN_KEY_FILE: f'{tmp_path}/key'}).is_on


def test_the_kernel_says_why_not(plan, monkeypatch):
    def refuse():
        raise OSError(1, 'unshare: Operation not permitted')

    monkeypatch.setattr(securing.isolate, 'kinds_that_work', refuse)
    assert '(unshare: Operation not permitted)' in decided(plan()).note


def test_a_trial_of_the_file_system_leaves_nothing_behind_and_a_dry_run_makes_none(plan, tmp_path):
    assert securing.decide(plan(), {}, tries=False).is_on
    assert os.listdir(tmp_path) == []
    assert decided(plan()).is_on
    assert os.listdir(tmp_path) == []


def test_a_file_system_without_modes(plan, monkeypatch):
    monkeypatch.setattr(securing.os, 'fchmod', lambda descriptor, mode: None)
    before = os.umask(0o022)
    try:
        said = decided(plan()).note
    finally:
        os.umask(before)
    assert 'keeps no files that only their user can read' in said


def test_the_chief_makes_the_key_once_and_the_others_wait_for_it(plan, tmp_path):
    path = str(tmp_path / 'run' / file_names.RUN_KEY)
    waiting = threading.Thread(target=securing._have_key, args=(path, plan(task=('worker', 1))))
    waiting.start()
    securing._have_key(path, plan())
    waiting.join(60)
    assert not waiting.is_alive()
    made = run_key.read(path).pem()
    securing._have_key(path, plan())
    assert run_key.read(path).pem() == made


def test_a_worker_whose_chief_makes_no_key_says_what_it_waited_for(plan, tmp_path, monkeypatch):
    began = time.monotonic()
    monkeypatch.setattr(securing.time, 'sleep', lambda secs: None)
    monkeypatch.setattr(securing.time, 'monotonic', iter([began, began + 1, began + 60]).__next__)
    with pytest.raises(securing.CannotSecure, match='has not made the key of the run within 60 s') as error:
        securing._have_key(str(tmp_path / 'key'), plan(task=('worker', 1)))
    assert error.value.exit_code == exit_codes.NO_PEER


def test_a_key_that_others_can_read_stops_the_task_before_it_moves(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(entering, 'enter', lambda *args: pytest.fail('it has moved'))
    path = tmp_path / 'run' / file_names.RUN_KEY
    path.parent.mkdir()
    run_key.write(str(path))
    path.chmod(0o644)
    with pytest.raises(securing.CannotSecure, match='make it 0600') as error:
        securing.secured(plan(), {})
    assert error.value.exit_code == exit_codes.USAGE


def test_a_key_of_root_is_not_judged_in_a_user_namespace_where_it_belongs_to_nobody(plan, tmp_path, monkeypatch):
    run_key.write(str(tmp_path / 'key'))
    monkeypatch.setattr(run_key, 'read', lambda path: pytest.fail('the companion reads it'))
    securing._have_key(str(tmp_path / 'key'), plan())


def test_a_job_of_another_user_is_refused_before_the_task_moves(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(entering, 'enter', lambda *args: pytest.fail('it has moved'))
    (tmp_path / 'job.pkl').touch()
    (tmp_path / 'job.pkl').chmod(0o606)
    with pytest.raises(JobError, match='another user could have written this file'):
        securing.secured(plan(f'--job={tmp_path}/job.pkl'), {})


def test_a_secured_plan_keeps_the_addresses_that_people_know(plan, monkeypatch):
    monkeypatch.setattr(entering, 'state', entering.Secured(None))
    secured = securing.secured(plan(), {})
    assert secured.cluster.worker == ('a:2222', 'b:2222')
    assert secured.watched_peers() == {'worker:1': 'b:2222'}
    assert secured.ways == {'a:2222': '127.0.0.1:10000', 'b:2222': '127.0.0.1:10001'}
    assert secured.reached.worker == ('127.0.0.1:10000', '127.0.0.1:10001')
    assert plan().ways == {}


def test_a_dry_run_stays_where_it_is_and_says_what_would_be(plan):
    dry = securing.secured(plan('--dry_run'), {})
    assert dry.inside is None
    assert dry.notes[-1].startswith('if the kernel allows it, secured: only tasks of this run')
    assert securing.secured(plan('--dry_run', '--secure=off'), {}).notes[-1].startswith('not secured (--secure=off): ')
    assert securing.secured(plan('--secure=off'), {}).notes[-1].startswith('not secured (--secure=off): ')


def test_a_network_that_could_not_be_made_is_told_with_a_code_that_says_try_again(plan, monkeypatch):
    monkeypatch.setattr(entering, 'state', entering.Secured(None, 'no namespaces left'))
    with pytest.raises(securing.CannotSecure, match='no namespaces left') as error:
        securing.connect(plan(), {})
    assert exit_codes.retryable(error.value.exit_code)
