"""What Ray's own client is given, and how the driver talks to actors: without Ray."""

import pathlib
import subprocess

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.submit import description as descriptions
from estimator_trainer.submit import ray_driver, ray_job, remote_supervisor
from estimator_trainer.submit.remote import HostLost
from tests import fakes

yaml = pytest.importorskip('yaml', reason='PyYAML, which reads job descriptions, is not installed')

DEPLOY = pathlib.Path(__file__).parents[2] / 'deploy'
VALUE = {
    'name': 'mnist',
    'flagfile': 'f.flags',
    'model_dir': '/m',
    'python': '/opt/python',
    'args': ["--param=name=it's $1"],
    'environment': {'A': 'b c', 'EMPTY': ''},
    'max_restarts': 0,
    'roles': {'ps': {}, 'chief': {'cores': 3, 'memory_gib': 1.5}, 'worker': {'count': 2, 'gpus': 1}},
    'ray': {'address': 'http://head:8265'},
    'kubernetes': {'kind': 'jobset'},
}


def test_the_driver_reads_the_same_description():
    description = descriptions.parse(VALUE, source='there')
    text = ray_job.render(description)['job.yaml']
    again = descriptions.parse(yaml.safe_load(text), source='there')
    assert again == description
    assert [name for name, _ in again.roles] == ['ps', 'chief', 'worker']
    assert ray_job.render(again)['job.yaml'] == text


@pytest.mark.parametrize('path', sorted(DEPLOY.rglob('mnist*.yaml')), ids=lambda path: path.name)
def test_descriptions_of_the_repository_survive(path):
    description = descriptions.load(path)
    again = descriptions.parse(ray_job.plain(description), source=description.source)
    assert again == description


def test_ray_has_no_time_limits():
    with pytest.raises(UsageError, match='time_limit_minutes=5: Ray has no time limits; .*--max_secs'):
        ray_job.render(descriptions.parse({**VALUE, 'time_limit_minutes': 5}))


OF_STORE = {**VALUE, 'model_dir': 's3://bucket/m', 'roles': {'worker': {'count': 2}, 'evaluator': {}}}


def test_a_run_in_a_store_needs_a_folder_of_each_node():
    with pytest.raises(UsageError, match="scratch_dir: is missing: name a folder of each node's own disk"):
        ray_job.render(descriptions.parse(OF_STORE))
    files = ray_job.render(descriptions.parse({**OF_STORE, 'scratch_dir': '/local'}))
    assert '# The environment of the tasks needs estimator-trainer[s3].' in files['submit.sh']
    assert yaml.safe_load(files['job.yaml'])['scratch_dir'] == '/local'


def test_the_driver_looks_into_the_folder_of_the_chief():
    description = descriptions.parse({**OF_STORE, 'scratch_dir': '/local'})
    addresses = {name: f'host:{port}' for port, name in enumerate(description.tasks(), 1024)}
    for command in remote_supervisor.commands(description, addresses, {}):
        assert '--scratch_dir=/local/mnist' in command.argv
    assert remote_supervisor.seen_dir(description, 'worker:0') == '/local/mnist/worker-0/run'
    alone = descriptions.parse({**OF_STORE, 'scratch_dir': '/local', 'roles': {'worker': {}}})
    assert remote_supervisor.seen_dir(alone, 'worker:0') == '/local/mnist/run'


def test_the_command_of_the_client(tmp_path):
    called = []

    def run(command):
        called.append(command)
        return subprocess.CompletedProcess(command, 1)

    description = descriptions.parse(VALUE)
    assert ray_job.submit(description, tmp_path, run) == 1
    assert called == [
        [
            'ray',
            'job',
            'submit',
            '--address=http://head:8265',
            f'--working-dir={tmp_path}',
            '--',
            'python',
            '-m',
            'estimator_trainer.submit.ray_driver',
            'job.yaml',
        ]
    ]
    assert ray_job.render(description)['submit.sh'].splitlines()[-1] == ' '.join(called[0]).replace(str(tmp_path), '.')


def test_roles_that_make_no_cluster_are_refused():
    with pytest.raises(UsageError, match='roles.*parameter_server'):
        ray_job.render(descriptions.parse({**VALUE, 'roles': {'ps': {}, 'worker': {}}}))


def test_a_bundle_is_what_one_task_needs():
    roles = dict(descriptions.parse(VALUE).roles)
    assert ray_driver.bundle(roles['chief']) == {'CPU': 3, 'memory': 1536 << 20}
    assert ray_driver.bundle(roles['worker']) == {'CPU': 1, 'memory': 4 << 30, 'GPU': 1}


@pytest.mark.parametrize('host, address', [('10.0.0.1', '10.0.0.1:22'), ('fd00::1', '[fd00::1]:22')])
def test_addresses(host, address):
    assert ray_driver.address(host, 22) == address


@pytest.mark.parametrize('argv', [[], ['a', 'b']])
def test_the_driver_wants_one_description(argv, capsys):
    assert ray_driver.main(argv) == 64
    assert 'name one job description' in capsys.readouterr().err


class TestQuestion:
    def test_one_call_at_a_time(self):
        fake = fakes.Ray()
        question = ray_driver.Question(fake, fake)
        assert question.ask() is question.ask() is None
        assert fake.calls == 1
        fake.answers[1] = (0, {})
        assert question.ask() == (0, {})
        assert question.ask() is None
        assert fake.calls == 2

    def test_a_node_that_does_not_answer_is_lost(self, monkeypatch):
        fake = fakes.Ray()
        question = ray_driver.Question(fake, fake)
        assert question.ask() is None
        monkeypatch.setattr(ray_driver, 'LOST_SECS', -1)
        with pytest.raises(HostLost, match='has not answered'):
            question.ask()

    def test_an_actor_that_has_died_is_lost(self):
        fake = fakes.Ray()
        fake.answers[1] = fake.exceptions.RayActorError('The actor died.\nand a page of the log of its raylet')
        with pytest.raises(HostLost, match=r'^The actor died\.$'):
            ray_driver.Question(fake, fake).ask()

    def test_an_actor_that_the_memory_monitor_killed_is_lost(self):
        fake = fakes.Ray()
        fake.answers[1] = fake.exceptions.OutOfMemoryError('Task was killed: the node is running low on memory.\nlog')
        with pytest.raises(HostLost, match=r'low on memory\.$'):
            ray_driver.Question(fake, fake).ask()


def test_what_cannot_be_started_says_why():
    fake = fakes.Ray()
    host = ray_driver.RayHost(fake, fake, 'a:1')
    fake.answers[1] = fake.exceptions.RayTaskError('a traceback')
    fake.answers[1].cause = NotADirectoryError(20, 'Not a directory', '/no/such')
    with pytest.raises(OSError, match='Not a directory.*/no/such'):
        host.start(['python'], {}, '/no/such')
    with pytest.raises(HostLost):
        host.start(['python'], {}, None)
