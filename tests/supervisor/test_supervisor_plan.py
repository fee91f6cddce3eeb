"""Shape -> commands, exits -> cause, argv -> options, outcome -> text: no process is started."""

import json
import signal

import pytest

from estimator_trainer.cluster import options, plan, policy, report
from estimator_trainer.cluster.policy import Ended, Outcome, Stop, Why

TRAINER = ('python', '-m', 'estimator_trainer')


def gang(shape, cores=(), affinity=True, trainer_flags=(), environ=None):
    addresses = [f'127.0.0.1:{10000 + i}' for i in range(shape.size)]
    return plan.commands(shape, addresses, TRAINER, trainer_flags, environ or {}, cores, affinity)


@pytest.mark.parametrize(
    'shape, names',
    [
        (plan.Shape(2, 0, True), ['worker:0', 'worker:1', 'evaluator:0']),
        (plan.Shape(1, 0, False), ['worker:0']),
        (plan.Shape(3, 1, False), ['chief:0', 'worker:0', 'worker:1', 'ps:0']),
    ],
)
def test_workers_count_the_chief(shape, names):
    assert [command.name for command in gang(shape)] == names


def test_each_task_is_told_who_it_is():
    for command in gang(plan.Shape(2, 1, True), environ={'TF_CONFIG': 'stale', 'HOME': '/h'}):
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
    assert plan.core_shares(cores, tasks) == shares


def test_only_training_tasks_are_pinned():
    pinned = {command.name: command.cores for command in gang(plan.Shape(2, 1, True), range(4))}
    assert pinned == {'chief:0': (0, 1), 'worker:0': (2, 3), 'ps:0': (), 'evaluator:0': ()}


def test_no_affinity_no_pins_but_thread_counts():
    commands = gang(plan.Shape(2, 0, True), range(8), affinity=False)
    assert all(command.cores == () for command in commands)
    assert all('--intra_op_threads=4' in command.argv for command in commands)


def test_thread_counts_come_before_the_users_flags_and_are_at_least_one():
    command = gang(plan.Shape(2), range(1), trainer_flags=['--intra_op_threads=9'])[0]
    assert command.argv == (
        *TRAINER,
        '--intra_op_threads=1',
        '--inter_op_threads=1',
        '--intra_op_threads=9',
    )


def test_the_check_is_a_dry_run_of_the_first_training_task():
    check = plan.check(gang(plan.Shape(2, 1), trainer_flags=['--job=mnist']))
    assert check.name == 'chief:0'
    assert check.argv[-2:] == ('--job=mnist', '--dry_run')


@pytest.mark.parametrize(
    'codes, culprit',
    [
        ([0, 0], None),
        ([0, 3], 1),
        ([143, 1], 1),
        ([143, -9], 1),
        ([1, -9], 1),
        ([1, 64], 0),
        ([143, 137], 0),
    ],
)
def test_cause(codes, culprit):
    ended = [Ended(f'worker:{i}', code, 1.0) for i, code in enumerate(codes)]
    assert policy.cause(ended) == (None if culprit is None else ended[culprit])


@pytest.mark.parametrize(
    'stop, code',
    [
        (Stop(Why.DONE), 0),
        (Stop(Why.FAILED, cause=Ended('worker:0', 64, 1)), 64),
        (Stop(Why.FAILED, cause=Ended('worker:0', -9, 1)), 137),
        (Stop(Why.SIGNALLED, signum=signal.SIGINT), 130),
        (Stop(Why.SIGNALLED, signum=signal.SIGTERM), 143),
        (Stop(Why.SIGNALLED, signum=signal.SIGHUP), 129),
        (Stop(Why.NOT_DRAINED, late=('ps:0',)), 1),
    ],
)
def test_exit_code(stop, code):
    assert stop.exit_code == code


def test_the_closing_block_tells_the_cause_its_last_lines_and_the_others():
    first = Ended('worker:1', -9, 3.21)
    other = Ended('worker:0', -15, 3.4)
    text = report.end(
        Outcome(Stop(Why.FAILED, cause=first), (first, other), 3.5), 'logs/worker-1.err', ['boom']
    )
    assert text.splitlines() == [
        'worker:1 ended with SIGKILL after 3.2 s: the first to fail',
        'last lines of logs/worker-1.err:',
        '  | boom',
        'worker:0 ended with SIGTERM after 3.4 s',
        'end: exit code 137 after 3.5 s',
    ]


def test_the_start_line():
    commands = gang(plan.Shape(2, 0, True), [0, 1, 2, 3, 4, 6])
    line = report.start(commands, ['a:1', 'b:2', 'c:3'], 6, '/logs')
    assert line == (
        'start: worker:0 a:1, worker:1 b:2, evaluator:0 c:3; '
        '6 cores, worker:0 on 0-2; worker:1 on 3-4,6; logs in /logs'
    )


def test_defaults():
    opts = options.parse(['--', '--job=mnist'])
    assert opts.shape == plan.Shape(workers=2, ps=0, evaluator=True)
    assert opts.cpu_affinity
    assert (opts.limits.grace_secs, opts.limits.drain_secs) == (10, 600)
    assert opts.log_dir is None
    assert opts.trainer_flags == ('--job=mnist',)


def test_flags():
    argv = '--workers=3 --ps=1 --noevaluator --nocpu_affinity --grace_secs=.5 -- x --'.split()
    opts = options.parse(argv)
    assert opts.shape == plan.Shape(3, 1, False)
    assert not opts.cpu_affinity
    assert opts.limits.grace_secs == 0.5
    assert opts.trainer_flags == ('x', '--')


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
        assert options.parse(['--', *trainer_flags]).log_dir == log_dir, trainer_flags
    assert options.parse(['--log_dir=/l', '--', '--model_dir=/m']).log_dir == '/l'


@pytest.mark.parametrize(
    'argv, words',
    [
        (['--wrkers=2'], ["'wrkers'", 'workers']),
        (['--job=mnist'], ["'job'", 'after a --']),
        (['--workers=0'], ['--workers=0', '1 or more']),
        (['--workers=two'], ['--workers=two: give an integer']),
        (['--evaluator=maybe'], ['--evaluator=maybe: give true or false']),
        (['--workers'], ['--workers']),
        (['--ps=-1'], ['--ps=-1', '0 or more']),
        (['--grace_secs=-1'], ['--grace_secs=-1', '0 or more']),
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
    assert options.parse(['--help']) is None
    assert options.parse(['-h', '--workers=5']) is None
    text = options.help_text()
    for name in 'workers ps evaluator cpu_affinity grace_secs drain_secs log_dir'.split():
        assert name in text
