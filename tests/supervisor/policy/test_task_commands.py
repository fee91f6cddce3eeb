"""Shape -> commands, argv -> options: no process is started."""

import json

import pytest

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.monitoring import report_page
from estimator_trainer.run_dir import protocol
from estimator_trainer.supervisor import options
from estimator_trainer.supervisor.policy import task_commands
from estimator_trainer.supervisor.reports import wording
from estimator_trainer.this_process import isolate

TRAINER = ('python', '-m', 'estimator_trainer')


def gang(shape, cores=(), affinity=True, trainer_flags=(), environ=None):
    addresses = [f'127.0.0.1:{10000 + i}' for i in range(shape.size)]
    program = task_commands.Program(TRAINER, trainer_flags)
    return task_commands.commands(shape, addresses, program, environ or {}, cores, affinity)


@pytest.mark.parametrize(
    'shape, names',
    [
        (task_commands.Shape(2, 0, True), ['worker:0', 'worker:1', 'evaluator:0']),
        (task_commands.Shape(1, 0, False), ['worker:0']),
        (task_commands.Shape(3, 1, False), ['chief:0', 'worker:0', 'worker:1', 'ps:0']),
    ],
)
def test_workers_count_the_chief(shape, names):
    assert [command.name for command in gang(shape)] == names


def test_each_task_is_told_who_it_is():
    for command in gang(task_commands.Shape(2, 1, True), environ={'TF_CONFIG': 'stale', 'HOME': '/h'}):
        task = json.loads(command.env['TF_CONFIG'])['task']
        assert f'{task["type"]}:{task["index"]}' == command.name
        assert command.env['HOME'] == '/h'
        assert command.env['PYTHONUNBUFFERED'] == '1'
        assert command.trains == (task['type'] in ('chief', 'worker'))


@pytest.mark.parametrize(
    'cores, tasks, shares',
    [
        ([3, 1, 0, 2], 2, [(0, 1), (2, 3)]),
        ([0, 1, 2, 3, 4], 2, [(0, 1), (2, 3)]),
        ([5, 7], 2, [(5,), (7,)]),
        ([0], 2, [(), ()]),
    ],
)
def test_core_shares_are_equal_and_disjoint(cores, tasks, shares):
    assert task_commands.core_shares(cores, tasks) == shares


def test_only_training_tasks_are_pinned():
    pinned = {command.name: command.cores for command in gang(task_commands.Shape(2, 1, True), range(4))}
    assert pinned == {'chief:0': (0, 1), 'worker:0': (2, 3), 'ps:0': (), 'evaluator:0': ()}


def test_no_affinity_no_pins_but_thread_counts():
    commands = gang(task_commands.Shape(2, 0, True), range(8), affinity=False)
    assert all(command.cores == () for command in commands)
    assert all('--intra_op_threads=4' in command.argv for command in commands)


def test_thread_counts_come_before_the_users_flags_and_are_at_least_one():
    command = gang(task_commands.Shape(2), range(1), trainer_flags=['--intra_op_threads=9'])[0]
    assert command.argv == (*TRAINER, '--intra_op_threads=1', '--intra_op_threads=9')


def test_the_check_is_a_dry_run_of_the_first_training_task():
    commands = gang(task_commands.Shape(2, 1), trainer_flags=['--job=mnist'])
    check = task_commands.flag_check(commands, quick=True)
    assert (check.name, check.env[protocol.QUICK_CHECK]) == ('chief:0', '1')
    assert task_commands.flag_check(commands, quick=False).env == commands[0].env
    assert check.argv[-2:] == ('--job=mnist', '--dry_run')


@pytest.mark.parametrize(
    'shape, alone',
    [
        (task_commands.Shape(2, 0, True), ['evaluator:0']),
        (task_commands.Shape(3, 1, True), ['worker:0', 'worker:1', 'evaluator:0']),
        (task_commands.Shape(3, 1, True, sync_ps=True), ['evaluator:0']),
        (task_commands.Shape(1, 0, False), []),
    ],
)
def test_who_can_be_restarted_alone(shape, alone):
    assert [command.name for command in gang(shape) if command.alone] == alone


def test_addresses_are_those_of_tf_config():
    for command in gang(task_commands.Shape(2, 1, True)):
        told = json.loads(command.env['TF_CONFIG'])
        task = told['task']
        if task['type'] != 'evaluator':
            assert told['cluster'][task['type']][task['index']] == command.address
    assert len({command.address for command in gang(task_commands.Shape(2, 1, True))}) == 4


@pytest.mark.parametrize('shape, seen_by_a_worker', [((2, 1, True), False), ((2, 0, True), True)])
def test_a_session_of_a_program_with_parameter_servers_does_not_wait_for_the_evaluator(shape, seen_by_a_worker):
    program = task_commands.Program(['python', 'p.py'], is_trainer=False)
    addresses = [f'a:{port}' for port in range(sum(shape))]
    commands = task_commands.commands(task_commands.Shape(*shape), addresses, program, {}, range(4), affinity=False)
    clusters = {command.name: json.loads(command.env['TF_CONFIG'])['cluster'] for command in commands}
    assert clusters['evaluator:0']['evaluator'] == [f'a:{sum(shape) - 1}']
    others = [cluster for name, cluster in clusters.items() if name != 'evaluator:0']
    assert {'evaluator' in cluster for cluster in others} == {seen_by_a_worker}


def test_what_tasks_inherit():
    stale = {
        protocol.ERROR_FILE: '/e',
        protocol.GENERATION: 'g',
        protocol.ISOLATED: '1',
        'A': 'b',
        protocol.WORKERS: '7',
    }
    assert task_commands.environment(stale, '1-ab', 12.5, isolated=False, workers=3) == {
        'A': 'b',
        protocol.GENERATION: '1-ab',
        protocol.STARTED: '12.500',
        protocol.WORKERS: '3',
        report_page.SWITCH: 'off',
    }
    env = task_commands.environment({protocol.STARTED: '3.5'}, '2-cd', 12.5, isolated=True, workers=2)
    assert (env[protocol.STARTED], env[protocol.ISOLATED], env[protocol.WORKERS]) == ('3.5', '1', '2')


def test_the_start_line():
    commands = gang(task_commands.Shape(2, 0, True), [0, 1, 2, 3, 4, 6])
    assert wording.start(commands, {'worker:0': 7, 'worker:1': 8, 'evaluator:0': None}, 6, '/logs') == (
        'start: worker:0 127.0.0.1:10000 (PID 7), worker:1 127.0.0.1:10001 (PID 8), '
        'evaluator:0 127.0.0.1:10002 (not started); '
        '6 cores, worker:0 on 0-2; worker:1 on 3-4,6; logs in /logs'
    )


def test_defaults():
    opts = options.parse(['--', '--job=mnist'])
    assert opts.shape == task_commands.Shape(workers=2, ps=0, evaluator=True)
    assert opts.own.cpu_affinity
    limits, rules = opts.limits, opts.rules
    assert (limits.grace_secs, limits.drain_secs, limits.stall_timeout) == (30, 600, 1800)
    assert (rules.max_restarts, rules.window_secs, rules.backoff_secs) == (3, 3600, 1)
    assert (opts.own.min_workers, opts.own.isolate, opts.trainer.config.batch_size) == (None, 'auto', 64)
    assert (opts.log_dir, opts.model_dir) == (None, None)
    assert opts.words == ('--job=mnist',)


def test_flags():
    argv = '--workers=3 --ps=1 --noevaluator --nocpu_affinity --grace_secs=.5 -- x --'.split()
    opts = options.parse(argv)
    assert opts.shape == task_commands.Shape(3, 1, False)
    assert not opts.own.cpu_affinity
    assert opts.limits.grace_secs == 0.5
    assert opts.words == ('x', '--')


def test_flags_of_restarts():
    argv = '--max_restarts=0 --restart_window_secs=60 --backoff_secs=.5 --min_workers=1 --stall_timeout=0 --isolate=off'
    opts = options.parse(argv.split())
    assert opts.rules == options.Rules(0, 60, 0.5)
    assert (opts.own.min_workers, opts.limits.stall_timeout, opts.own.isolate) == (1, 0, 'off')


@pytest.mark.parametrize(
    'trainer_flags, size',
    [
        ([], 64),
        (['--batch_size=32'], 32),
        (['-batch_size', '16'], 16),
        (['--batch_size=32', '--batch_size=8'], 8),
        (['--batch_size=many'], 64),  # the trainer says what is wrong with it
        (['--batch_size'], 64),
    ],
)
def test_the_batch_size_is_the_trainers(trainer_flags, size):
    assert options.parse(['--', *trainer_flags]).trainer.config.batch_size == size


def test_a_cluster_whose_data_are_in_a_store_needs_its_network():
    assert options.parse(['--', '--train_files=data/x', '--eval_files=s3://b/x']).trainer.data_in_store == 'eval_files'
    assert options.parse(['--', '--data_dir=data']).trainer.data_in_store == ''
    found = isolate.enter('auto', 'eval_files')
    assert (found.isolated, '--eval_files is in a store' in found.note) == (False, True)
    with pytest.raises(isolate.CannotIsolate, match='--isolate=on: --eval_files is in a store'):
        isolate.enter('on', 'eval_files')


def test_the_limits_are_those_of_the_trainer():
    """Limits cannot import them: under Ray it may be used by an interpreter without absl."""
    assert options.Limits.grace_secs == TrainerConfig.grace_secs + options.SAVE_MARGIN_SECS
    assert options.Limits.stall_timeout == TrainerConfig.step_timeout_secs


@pytest.mark.parametrize(
    'argv, grace_secs, stall_timeout',
    [
        ([], 30, 1800),
        (['--', '--grace_secs=5', '--step_timeout_secs=60'], 30, 1800),
        (['--', '--grace_secs=120', '--step_timeout_secs=7200'], 125, 7200),
        (['--', '--step_timeout_secs=0'], 30, 0),
        (['--grace_secs=3', '--stall_timeout=9', '--', '--grace_secs=120', '--step_timeout_secs=0'], 3, 9),
    ],
)
def test_a_task_gets_the_time_that_its_own_flags_allow(argv, grace_secs, stall_timeout):
    limits = options.parse(argv).limits
    assert (limits.grace_secs, limits.stall_timeout) == (grace_secs, stall_timeout)


@pytest.mark.parametrize(
    'trainer_flags, asks',
    [
        ([], False),
        (['--dry_run'], True),
        (['--dry_run=true', '--job=x'], True),
        (['--dry_run', '--nodry_run'], False),
        (['--help', '--batch_size=many'], True),
        (['-h'], True),
        (['--job=help'], False),
    ],
)
def test_trainer_flags_that_start_nothing(trainer_flags, asks):
    assert options.parse(['--', *trainer_flags]).trainer.just_asks == asks


def test_the_batch_size_may_stand_in_a_flagfile(tmp_path):
    (tmp_path / 'f').write_text('--batch_size=12\n--model_dir=/m\n')
    opts = options.parse(['--', f'--flagfile={tmp_path}/f'])
    assert (opts.trainer.config.batch_size, opts.model_dir) == (12, '/m')


def test_logs_go_where_the_trainers_model_dir_is(tmp_path):
    inner, outer = tmp_path / 'inner.flags', tmp_path / 'outer.flags'
    inner.write_text('# comment\n--model_dir=/nested\n')
    outer.write_text(f'--job=mnist\n--flagfile={inner}\n')
    for trainer_flags, log_dir in (
        (['--model_dir=/m'], '/m/logs'),
        (['--model_dir', '/m', '--job=x'], '/m/logs'),
        (['--model_dir=/m', '--model_dir=/n'], '/n/logs'),
        ([f'--flagfile={outer}'], '/nested/logs'),
        (['--flagfile', str(outer), '--model_dir=/m'], '/m/logs'),
        (['--model_dir'], None),
        (['--model_dir=gs://bucket/m'], None),
    ):
        opts = options.parse(['--', *trainer_flags])
        assert opts.log_dir == log_dir, trainer_flags
        assert opts.model_dir == (log_dir and log_dir.removesuffix('/logs'))
    assert options.parse(['--log_dir=/l', '--', '--model_dir=/m']).log_dir == '/l'


@pytest.mark.parametrize(
    'argv, words',
    [
        (['--wrkers=2'], ['--wrkers', '--workers?', 'after a --']),
        (['--job=mnist'], ['--job: is a flag of the trainer', 'after a --: run_local_cluster.sh -- --job=mnist']),
        (
            ['--workers', '3', '--flagfile=configs/mnist_5k.flags', '--nodry_run', '--noevaluator'],
            ['run_local_cluster.sh --workers 3 --noevaluator -- --flagfile=configs/mnist_5k.flags --nodry_run'],
        ),
        (['--noevaluator=3'], ['--noevaluator=3', 'takes no value']),
        (['--workers=0'], ['--workers=0', '1 or more']),
        (['--workers=two'], ['--workers=two: a whole number is needed']),
        (['--evaluator=maybe'], ['--evaluator=maybe: true or false is needed']),
        (['--workers'], ['--workers']),
        (['--ps=-1'], ['--ps=-1', '0 or more']),
        (['--grace_secs=-1'], ['--grace_secs=-1', '0 or more']),
        (['--grace_secs=inf'], ['--grace_secs=inf', 'give seconds']),
        (['--max_restarts=-1'], ['--max_restarts=-1', '0 or more']),
        (['--restart_window_secs=0'], ['--restart_window_secs=0', '--max_restarts=0']),
        (['--backoff_secs=-1'], ['--backoff_secs=-1', '0 or more']),
        (['--stall_timeout=-1'], ['--stall_timeout=-1', '0 or more']),
        (['--isolate=perhaps'], ['--isolate=perhaps: one of auto, on, off is needed']),
        (['--min_workers=0'], ['--min_workers=0', '1 or more']),
        (['--min_workers=3'], ['--min_workers=3', 'not more than --workers=2']),
        (['--min_workers=1', '--ps=1'], ['--min_workers=1', 'not with --ps=1']),
        (['--drain_secs=nan'], ['--drain_secs=nan', '0 or more']),
        (['mnist'], ["'mnist'", 'after a --']),
        (['--', '--flagfile=/no/such.flags'], ['--flagfile=/no/such.flags', 'No such file']),
        (['--flagfile=/no/such.flags'], ['--flagfile=/no/such.flags', 'No such file']),
        (['--', '--flagfile'], ['--flagfile']),
    ],
)
def test_usage_errors_are_one_line_with_the_cure(argv, words):
    with pytest.raises(options.UsageError) as caught:
        options.parse(argv)
    message = str(caught.value)
    assert '\n' not in message
    assert all(word in message for word in words), message


def test_help_names_every_flag():
    assert options.wants_help(['--help'])
    assert options.wants_help(['-h', '--workers=5'])
    text = options.help_text()
    for name in (
        'workers ps evaluator cpu_affinity grace_secs drain_secs log_dir max_restarts '
        'restart_window_secs backoff_secs min_workers stall_timeout isolate'
    ).split():
        assert f'--{name}:' in text or f'--[no]{name}:' in text
