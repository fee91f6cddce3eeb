"""Job descriptions: what they say, and what is refused with which words."""

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.submit import description

LEAST = {'name': 'm', 'flagfile': 'a.flags', 'model_dir': '/runs/m', 'roles': {'worker': {'count': 2}}}


def parse(**changes):
    return description.parse({**LEAST, **changes}, 'job.yaml')


def test_the_least():
    job = parse()
    assert (job.name, job.python, job.image, job.base_port) == ('m', 'python3', None, None)
    assert (job.max_restarts, job.grace_secs, job.time_limit_minutes) == (3, 60, None)
    assert job.roles == (('worker', description.RoleTasks(count=2, cores=1, memory_gib=4, gpus=0)),)
    assert (job.slurm.extra, job.kubernetes.kind, job.ray.address) == ((), 'job', None)


def test_roles_keep_their_order():
    job = parse(roles={'ps': {}, 'chief': None, 'worker': {'count': 3}})
    assert (job.layout, job.num_tasks) == ('ps:1,chief:1,worker:3', 5)


def test_the_command():
    job = parse(python='/opt/python', args=['--seed=2'], grace_secs=30)
    assert job.command('--cluster_from=slurm') == (
        '/opt/python',
        '-m',
        'estimator_trainer',
        '--flagfile=a.flags',
        '--seed=2',
        '--model_dir=/runs/m',
        '--grace_secs=25',
        '--cluster_from=slurm',
    )


@pytest.mark.parametrize(
    'args, asynchronous', [([], True), (['--sync_ps'], False), (['--seed=2', '--sync_ps=true'], False)]
)
def test_workers_beside_parameter_servers_are_asynchronous_without_sync_ps(args, asynchronous):
    assert parse(roles={'chief': {}, 'worker': {}, 'ps': {}}, args=args).asynchronous == asynchronous
    assert not parse(args=args).asynchronous


def test_sync_ps_may_stand_in_the_flag_file(tmp_path):
    (tmp_path / 'a.flags').write_text('--sync_ps\n')
    assert not parse(working_dir=str(tmp_path), roles={'chief': {}, 'worker': {}, 'ps': {}}).asynchronous


@pytest.mark.parametrize(
    'flags, args, secs',
    [
        ('', [], 1800),
        ('--step_timeout_secs=7200', [], 7200),
        ('--step_timeout_secs=7200', ['--step_timeout_secs=0'], 0),
    ],
)
def test_the_time_of_a_step_is_that_of_the_trainer(tmp_path, flags, args, secs):
    (tmp_path / 'a.flags').write_text(f'{flags}\n')
    assert parse(working_dir=str(tmp_path), args=args).step_timeout_secs == secs
    elsewhere = parse(working_dir=str(tmp_path / 'of the tasks'), args=args)
    assert elsewhere.step_timeout_secs == (0 if args else 1800)


def test_memory_in_parts_of_a_gib():
    job = parse(roles={'worker': {'memory_gib': 0.3, 'cores': 2, 'gpus': 1}})
    assert job.roles[0][1].memory_mib == 308
    assert job.roles[0][1].resources == (2, 308, 1)


def test_null_is_the_default():
    assert parse(image=None, slurm=None, kubernetes={'claim': None}) == parse()


@pytest.mark.parametrize(
    'changes, said',
    [
        ({'flagfil': 'x'}, 'flagfil=x: no such key (did you mean flagfile?)'),
        ({'xyzzy': 1}, 'xyzzy=1: no such key; known are name, flagfile'),
        ({'name': 'A'}, 'name=A: give 1 to 40 lower-case letters'),
        ({'name': 'a' * 41}, 'give 1 to 40'),
        ({'name': '1a'}, 'a letter first'),
        ({'flagfile': None}, 'flagfile: give text of one line'),
        ({'flagfile': 'a\nb'}, 'give text of one line'),
        ({'model_dir': 'runs/m'}, 'model_dir=runs/m: give an absolute path'),
        ({'model_dir': 'hdfs://host/m'}, 'model_dir=hdfs://host/m: hdfs:// is not known'),
        ({'model_dir': 's3://bucket'}, 'model_dir=s3://bucket: name a bucket and a folder in it'),
        ({'scratch_dir': '/scratch'}, 'scratch_dir=/scratch: is for a model_dir with a URL'),
        ({'args': ['--scratch_dir=/x']}, '--scratch_dir comes from the job description'),
        ({'kubernetes': {'service_account': 'A_b'}}, 'kubernetes.service_account=A_b: give the name of an object'),
        ({'roles': {}}, 'roles={}: give at least one role'),
        ({'roles': ['worker']}, "roles=['worker']: give at least one role"),
        ({'roles': {'wroker': {}}}, 'roles.wroker={}: no such key (did you mean worker?)'),
        ({'roles': {'worker': {'count': 0}}}, 'roles.worker.count=0: give a whole number from 1'),
        ({'roles': {'worker': {'count': True}}}, 'roles.worker.count=True: give a whole number'),
        ({'roles': {'worker': {'cors': 2}}}, 'roles.worker.cors=2: no such key (did you mean cores?)'),
        ({'roles': {'worker': {'memory_gib': 0}}}, 'roles.worker.memory_gib=0: give a number over 0'),
        ({'roles': {'worker': 2}}, 'roles.worker=2: give keys and values'),
        ({'args': '--seed=1'}, 'args=--seed=1: give a list of options'),
        ({'args': ['seed=1']}, 'args[0]=seed=1: give an option such as --name=value'),
        ({'args': ['--seed=1', '--model_dir=/x']}, 'args[1]=--model_dir=/x: --model_dir comes from the job'),
        ({'args': ['-base_port=1']}, '--base_port comes from the job description'),
        ({'environment': {'A': 1}}, "environment.A=1: give text of one line, in quotes: '1'"),
        ({'environment': {'A B': 'x'}}, 'environment.A B=x: give a name of letters'),
        ({'environment': {'TF_CONFIG': 'x'}}, 'environment.TF_CONFIG=x: the engine tells each task its place'),
        ({'time_limit_minutes': 1.5}, 'time_limit_minutes=1.5: give a whole number from 1'),
        ({'grace_secs': 5}, 'grace_secs=5: give a whole number from 10'),
        ({'base_port': 80}, 'base_port=80: give a whole number from 1024 to 65535'),
        ({'slurm': {'partiton': 'x'}}, 'slurm.partiton=x: no such key (did you mean partition?)'),
        ({'slurm': {'extra': ['x']}}, 'slurm.extra[0]=x: give an option'),
        ({'kubernetes': {'kind': 'deployment'}}, 'kubernetes.kind=deployment: give job, jobset or tfjob'),
    ],
)
def test_refused(changes, said):
    with pytest.raises(UsageError) as refused:
        parse(**changes)
    assert str(refused.value).startswith('job.yaml: ')
    assert said in str(refused.value)


def test_a_store_is_a_model_dir():
    job = parse(model_dir='gs://bucket/m', scratch_dir='/local')
    assert (job.in_store, job.extra, job.scratch_dir) == (True, 'gcs', '/local')
    assert (parse().in_store, parse().extra) == (False, '')
    assert parse(model_dir='S3://bucket/m/').model_dir == 's3://bucket/m'
    assert '--model_dir=gs://bucket/m' in job.command()


@pytest.mark.parametrize('name', ['AWS_SECRET_ACCESS_KEY', 'AZURE_CLIENT_SECRET', 'GOOGLE_SERVICE_ACCOUNT_KEY'])
def test_a_description_holds_no_credentials(name):
    with pytest.raises(UsageError, match=f'environment.{name}: credentials do not belong here') as refused:
        parse(environment={name: 'hush'})
    assert 'hush' not in str(refused.value)
    with pytest.raises(UsageError, match='holds a name or a password') as refused:
        parse(model_dir='s3://name:hush@bucket/m')
    assert 'hush' not in str(refused.value)
    parse(environment={'AWS_ENDPOINT_URL': 'http://minio:9000', 'AWS_WEB_IDENTITY_TOKEN_FILE': '/token'})


def test_parameter_servers_need_a_shared_folder():
    job = parse(model_dir='s3://bucket/m', roles={'chief': {}, 'worker': {}, 'ps': {}})
    with pytest.raises(UsageError, match='roles.ps: parameter servers of several machines cannot save into a store'):
        job.check_roles()


@pytest.mark.parametrize('key', ['name', 'flagfile', 'model_dir', 'roles'])
def test_missing(key):
    with pytest.raises(UsageError, match=f'job.yaml: {key}: is missing'):
        description.parse({name: value for name, value in LEAST.items() if name != key}, 'job.yaml')


def test_all_mistakes_are_named_at_once():
    wrong = {
        'nmae': 'm',
        'model_dir': 's3://bucket',
        'roles': {'wroker': {}, 'worker': {'count': 0, 'cors': 2}},
        'args': ['seed=1', 'x'],
        'environment': {'A': 1, 'TF_CONFIG': 'x'},
        'base_port': 80,
    }
    with pytest.raises(UsageError) as refused:
        description.parse(wrong, 'job.yaml')
    lines = str(refused.value).splitlines()
    assert all(line.startswith('job.yaml: ') for line in lines)
    assert [line.split()[1].partition('=')[0].rstrip(':') for line in lines] == [
        'nmae',
        'roles.wroker',
        'roles.worker.count',
        'roles.worker.cors',
        'args[0]',
        'args[1]',
        'environment.A',
        'environment.TF_CONFIG',
        'base_port',
        'name',
        'flagfile',
        'model_dir',
    ]


@pytest.mark.parametrize('value', [None, [], 'text'])
def test_no_mapping(value):
    with pytest.raises(UsageError, match='job.yaml: give keys and values'):
        description.parse(value, 'job.yaml')


def test_an_engine_refuses_a_value():
    job = parse(kubernetes={'claim': 'c'})
    assert str(job.error('kubernetes.claim', 'no')) == 'job.yaml: kubernetes.claim=c: no'
    assert str(parse().error('kubernetes.claim', 'give it')) == 'job.yaml: kubernetes.claim: give it'
    assert str(parse().error('roles.worker', 'too many')) == 'job.yaml: roles.worker: too many'
