"""Shape -> commands: no process is started."""

import json

import pytest

from estimator_trainer.monitoring import report_page
from estimator_trainer.run_dir import protocol
from estimator_trainer.supervisor.policy import task_commands
from estimator_trainer.supervisor.reports import wording

TRAINER = ('python', '-m', 'estimator_trainer')


def gang(shape, cores=(), affinity=True, trainer_flags=(), environ=None, gpus=None):
    addresses = [f'127.0.0.1:{10000 + i}' for i in range(shape.size)]
    program = task_commands.Program(TRAINER, trainer_flags)
    return task_commands.commands(shape, addresses, program, environ or {}, cores, affinity, gpus)


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


def test_gpus_are_dealt_to_those_that_compute():
    shape = task_commands.Shape(2, 1, True)
    seen = {one.name: one.env['CUDA_VISIBLE_DEVICES'] for one in gang(shape, gpus=task_commands.Gpus(4, 1))}
    assert seen == {'chief:0': '0', 'worker:0': '1', 'ps:0': '-1', 'evaluator:0': '2'}
    shared = {
        one.name: one.env.get('ESTIMATOR_TRAINER_SHARED_GPU') for one in gang(shape, gpus=task_commands.Gpus(1, 1))
    }
    assert shared == {'chief:0': '1', 'worker:0': '1', 'ps:0': None, 'evaluator:0': None}
    assert all('CUDA_VISIBLE_DEVICES' not in one.env for one in gang(shape))


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
