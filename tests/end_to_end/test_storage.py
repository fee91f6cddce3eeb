"""Runs whose model_dir is in an object store, against moto's S3."""

import contextlib
import json
import os
import signal
import sys
import time

import launch
import pytest

import tf_config
from estimator_trainer import exit_codes
from estimator_trainer.storage import names
from estimator_trainer.supervisor.processes import ports
from tests.chaos import faults
from tests.storage import s3_server

boto3 = pytest.importorskip('boto3')

URL = f's3://{s3_server.BUCKET}/run'
FLAGS = (
    *('--job=tests.chaos.job:job', '--batch_size=16', '--deterministic', '--max_steps=60', '--steps_per_call=1'),
    *('--save_checkpoints_steps=10', '--keep_checkpoints=3', '--log_every_steps=20', '--lost_peer_secs=5'),
)


@pytest.fixture
def store(tmp_path):
    with s3_server.serving(tmp_path) as environment:
        client(environment).create_bucket(Bucket=s3_server.BUCKET)
        yield environment


@pytest.fixture(scope='module')
def undisturbed(tmp_path_factory):
    model_dir = tmp_path_factory.mktemp('undisturbed')
    launch.trainer(*FLAGS, f'--model_dir={model_dir}')
    return launch.weights(model_dir)


def client(environment):
    return boto3.client(
        's3',
        endpoint_url=environment['AWS_ENDPOINT_URL'],
        aws_access_key_id=environment['AWS_ACCESS_KEY_ID'],
        aws_secret_access_key=environment['AWS_SECRET_ACCESS_KEY'],
        region_name=environment['AWS_REGION'],
    )


def download(environment, folder):
    """What somebody else finds in the store."""
    s3 = client(environment)
    for item in s3.list_objects_v2(Bucket=s3_server.BUCKET, Prefix='run/').get('Contents', []):
        path = folder / item['Key'].removeprefix('run/')
        path.parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(s3_server.BUCKET, item['Key'], str(path))
    return folder


def secrets(environment):
    return [environment[name] for name in ('AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY')]


def hold_no_secrets(environment, folder, output):
    """The scratch folders, the store, what was asked of it, the logs of the tasks, and the output."""
    everything = b''.join(path.read_bytes() for path in folder.rglob('*') if path.is_file()) + output.encode()
    assert not [secret for secret in secrets(environment) if secret.encode() in everything]


def held(folder, step) -> faults.Scene:
    """A scene whose chief trains no further than this step until `release()`; of tasks with `in_scene`."""
    scene = faults.Scene(folder)
    scene.plan([faults.Fault(at='nobody', moment=faults.TRAINING, by_step=step)])
    return scene


def in_scene(folder):
    return {faults.FOLDER: str(folder)}


def wait_for_checkpoint(folder, step, process, secs=100):
    """Until the store has named a checkpoint of at least this step."""
    deadline = time.monotonic() + secs
    while True:
        pointers = [body for name, body in s3_server.changes(folder) if name == names.POINTER]
        if pointers and names.step_of(names.named_by(pointers[-1])) >= step:
            return
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f'no checkpoint of step {step} within {secs} s'
        time.sleep(0.05)


@pytest.mark.slow
def test_a_killed_run_goes_on_bit_for_bit_on_another_machine(store, tmp_path, undisturbed):
    command = [sys.executable, '-m', 'estimator_trainer', *FLAGS, f'--model_dir={URL}']
    held(tmp_path, 35)
    with launch.start(command, XDG_CACHE_HOME=str(tmp_path / 'one'), **in_scene(tmp_path), **store) as process:
        wait_for_checkpoint(tmp_path, 30, process)
        for secret in secrets(store):
            assert not launch.processes_naming(secret)
        os.kill(process.pid, signal.SIGKILL)  # the kernel kills the trainer with it
        process.wait()
    s3_server.set_fault(tmp_path, status=503, every=3)
    output = launch.checked(launch.run(command, XDG_CACHE_HOME=str(tmp_path / 'two'), **store)).output
    assert 'no checkpoint yet' not in output and 'trains from step 0 ' not in output
    assert f'{URL} holds everything: model.ckpt-60' in output
    s3_server.set_fault(tmp_path)
    found = download(store, tmp_path / 'found')
    assert launch.weights(found) == undisturbed
    assert launch.metrics(found)[-1]['step'] == 60
    flags = json.loads((found / 'config.json').read_text())['flags']  # as they were given
    assert (flags['model_dir'], flags['scratch_dir'], flags['grace_secs']) == (URL, '', 25)
    assert list(found.glob('export/best/*/saved_model.pb')) and list(found.glob('export/final/*/saved_model.pb'))
    hold_no_secrets(store, tmp_path, output)


@pytest.mark.slow
def test_a_local_cluster_works_in_a_store(store, tmp_path):
    flags = ('--workers=1', '--evaluator', '--', '--job=mnist', '--max_steps=20', f'--model_dir={URL}')
    output = launch.cluster(flags[:2], *flags[3:], XDG_CACHE_HOME=str(tmp_path / 'cache'), **store).output
    assert f'{URL} holds everything: model.ckpt-20' in output
    assert 'SIGTERM leaves' in output  # it has sent its first checkpoint
    found = download(store, tmp_path / 'found')
    assert (found / 'report.json').exists() and launch.metrics(found)[-1]['step'] == 20
    hold_no_secrets(store, tmp_path, output)


@pytest.mark.slow
def test_what_cannot_be_sent_is_sent_by_the_next_start(store, tmp_path):
    command = [sys.executable, '-m', 'estimator_trainer', *FLAGS, f'--model_dir={URL}', '--max_unpushed_secs=1']
    environment = {'XDG_CACHE_HOME': str(tmp_path / 'cache'), **store}
    scene = held(tmp_path, 15)
    with launch.start(command, **in_scene(tmp_path), **environment) as process:
        wait_for_checkpoint(tmp_path, 10, process)
        s3_server.set_fault(tmp_path, status=503)
        scene.release()
        ended = launch.finished(process)
    assert ended.code == exit_codes.NOT_SENT, ended.output
    assert 'not everything was sent' in ended.output
    s3_server.set_fault(tmp_path)
    output = launch.checked(launch.run(command, **environment)).output
    assert f'{URL} holds everything: model.ckpt-60' in output


def test_a_scratch_folder_of_something_else_is_left_alone(store, tmp_path):
    (tmp_path / 'run').mkdir()
    (tmp_path / 'run' / 'thesis.txt').write_text('mine')
    command = [sys.executable, '-m', 'estimator_trainer', *FLAGS, f'--model_dir={URL}', f'--scratch_dir={tmp_path}']
    finished = launch.run(command, **store)
    assert (finished.code, 'holds something else' in finished.output) == (exit_codes.USAGE, True), finished.output
    assert (tmp_path / 'run' / 'thesis.txt').read_text() == 'mine'


@contextlib.contextmanager
def tasks_of_several_machines(cache, **environment):
    """Two workers and an evaluator, each started by itself, with a scratch folder of its own. Yields the processes."""
    with ports.claim(3) as claimed, contextlib.ExitStack() as stack:
        cluster = tf_config.make(2, 0, True, [f'127.0.0.1:{port}' for port in claimed.ports])
        yield {
            str(task): stack.enter_context(
                launch.start(
                    [sys.executable, '-m', 'estimator_trainer', *FLAGS, f'--model_dir={URL}'],
                    TF_CONFIG=tf_config.render(cluster, task),
                    XDG_CACHE_HOME=str(cache / str(task).replace(':', '-')),
                    **environment,
                )
            )
            for task in cluster.tasks
        }


def ended(tasks) -> dict:
    """The output of each task."""
    return {task: launch.finished(process).output for task, process in tasks.items()}


@pytest.mark.slow
def test_tasks_of_several_machines_go_on_bit_for_bit_on_others(store, tmp_path):
    held(tmp_path, 35)
    with tasks_of_several_machines(tmp_path / 'one', **in_scene(tmp_path), **store) as tasks:
        wait_for_checkpoint(tmp_path, 30, tasks['worker:0'])
        os.killpg(tasks['worker:1'].pid, signal.SIGKILL)
        outputs = ended(tasks)
    assert tasks['worker:0'].returncode == exit_codes.LOST_PEER, outputs['worker:0']
    with tasks_of_several_machines(tmp_path / 'two', **store) as tasks:
        outputs = ended(tasks)
    assert not any(process.returncode for process in tasks.values()), '\n'.join(outputs.values())
    for task in ('worker:0', 'worker:1'):
        assert 'trains from step 0 ' not in outputs[task] and 'done at step 60' in outputs[task], outputs[task]
    found = download(store, tmp_path / 'found')
    assert launch.metrics(found)[-1]['step'] == 60
    assert list(found.glob('export/final/*/saved_model.pb'))
    launch.cluster(['--workers=2', '--noevaluator'], *FLAGS, f'--model_dir={tmp_path}/local')
    weights = [(folder / 'model.ckpt-60.index').read_bytes() for folder in (found, tmp_path / 'local')]
    assert weights[0] == weights[1]  # an index has the checksum of each variable


@pytest.mark.parametrize(
    'url, said',
    [
        ('s3://no-such-bucket/run', 'NoSuchBucket'),
        ('s3://name:password@bucket/run', 'Credentials come from'),
        ('hdfs://host/run', 'hdfs:// is not known'),
        ('s3://bucket', 'name a bucket and a folder in it'),
    ],
)
def test_a_store_that_cannot_be_used_is_one_error(store, tmp_path, url, said):
    command = [sys.executable, '-m', 'estimator_trainer', *FLAGS, f'--model_dir={url}']
    finished = launch.run(command, XDG_CACHE_HOME=str(tmp_path), **store)
    assert finished.code == exit_codes.USAGE, finished.output
    assert said in finished.output and 'password@' not in finished.output
    assert len(finished.output.splitlines()) == 1
