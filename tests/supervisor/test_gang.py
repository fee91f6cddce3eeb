"""A gang of fake tasks, and one of shell children, whose supervisor runs in a process of its own: at a bound that
process is killed, and the kernel takes its children along."""

import contextlib
import json
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import sys

import pytest

from estimator_trainer.supervisor.policy import task_commands
from estimator_trainer.supervisor.processes import local_launcher
from tests.processes import Run, gone, pid_in, until
from tests.supervisor import fakes

ROOT = pathlib.Path(__file__).parents[2]
FOREVER = 'exec sleep 600'

SUPERVISE = """
import json, os, pathlib, sys
from estimator_trainer.supervisor.policy import task_commands
from estimator_trainer.run_dir import protocol
from estimator_trainer.this_process import signal_pipe
from estimator_trainer.this_process import console
from estimator_trainer.this_process.console import Console
from estimator_trainer.supervisor.policy.restarts import Limits
from estimator_trainer.supervisor.gang import Gang
from estimator_trainer.supervisor.processes.local_launcher import LocalLauncher
tasks, folder, grace_secs = json.loads(sys.argv[1])
gang = [task_commands.TaskCommand(name, tuple(argv), dict(os.environ),
                     trains=name.startswith(('chief', 'worker')), cores=tuple(cores))
        for name, argv, cores in tasks]
console.DRAIN_SECS = 60  # a test reads all there is, on a slow machine too
out, err = Console(1, False), Console(2, False)
launcher = LocalLauncher(pathlib.Path(folder), out, err)
runner = Gang(gang, launcher, Limits(grace_secs), err)
with out, err, signal_pipe.Signals(also=(protocol.PROFILE_SIGNAL,)) as caught:
    outcome = runner.run(caught)
(pathlib.Path(folder) / 'outcome').write_text(json.dumps({
    'why': outcome.end.kind.name, 'codes': {task.name: task.code for task in outcome.ended}}))
sys.exit(outcome.end.exit_code)
"""


@pytest.fixture
def start(tmp_path):
    """start({'worker:0': 'shell script', …}) -> Run. Tasks run in tmp_path."""
    with contextlib.ExitStack() as runs:

        def start(tasks, grace_secs=10, cores=(), ignored=()):
            commands = [
                [name, script if isinstance(script, list) else ['sh', '-c', script], list(cores)]
                for name, script in tasks.items()
            ]
            popen = subprocess.Popen(
                [sys.executable, '-c', SUPERVISE, json.dumps([commands, str(tmp_path), grace_secs])],
                cwd=tmp_path,
                env={**os.environ, 'PYTHONPATH': str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=lambda: [
                    signal.signal(s, signal.SIG_IGN if s in ignored else signal.SIG_DFL)
                    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
                ],
            )
            runs.enter_context(popen)
            runs.callback(popen.kill)
            return Run(tmp_path, popen)

        yield start


def test_all_end_with_0(start):
    run = start({'worker:0': 'echo hello', 'worker:1': 'printf "a\\nb" >&2', 'ps:0': ':'}).finish()
    assert run.code == 0
    assert run.json('outcome')['why'] == 'DONE'
    assert run.json('outcome')['codes'] == {'worker:0': 0, 'worker:1': 0, 'ps:0': 0}
    assert run.out == '[worker:0] hello\n'
    assert run.err.startswith('[worker:1] a\n[worker:1] b\n')
    assert (run.folder / 'worker-0.out').read_text() == 'hello\n'
    assert (run.folder / 'worker-1.err').read_text() == 'a\nb'
    assert (run.folder / 'ps-0.err').read_text() == ''


def test_all_of_a_large_output_arrives(start):
    script = [sys.executable, '-c', 'import sys\nfor i in range(100000): print(i)']
    run = start({'worker:0': script}).finish()
    assert run.out.splitlines() == [f'[worker:0] {i}' for i in range(100000)]


def test_stdin_is_empty(start):
    assert start({'worker:0': 'cat'}).finish().code == 0


def test_a_task_that_ends_well_does_not_end_the_others(start, tmp_path):
    os.mkfifo(tmp_path / 'go')
    run = start({'worker:0': 'echo $$ > pid', 'worker:1': 'read line < go'})
    pid = pid_in(tmp_path / 'pid')
    until(lambda: gone(pid))
    (tmp_path / 'go').write_text('\n')
    assert run.finish().json('outcome')['codes'] == {'worker:0': 0, 'worker:1': 0}


def test_who_heeds_sigterm_has_time_to_end(start, tmp_path):
    os.mkfifo(tmp_path / 'ready')
    run = start(
        {
            'worker:0': 'trap "echo saved; exit 143" TERM; echo > ready; while :; do sleep .01; done',
            'worker:1': 'read line < ready; exit 143',
        }
    ).finish()
    assert run.out == '[worker:0] saved\n'
    assert run.json('outcome')['codes'] == {'worker:1': 143, 'worker:0': 143}


@pytest.mark.skipif(sys.platform != 'linux', reason='needs PR_SET_PDEATHSIG')
def test_kill_9_of_the_supervisor_takes_every_task_along(start, tmp_path):
    script = 'trap "" TERM HUP INT; echo $$ > {0}; exec sleep 600'
    run = start({f'worker:{i}': script.format(f'pid-{i}') for i in range(2)})
    pids = [pid_in(tmp_path / f'pid-{i}') for i in range(2)]
    assert not any(gone(pid) for pid in pids)
    run.popen.kill()
    run.finish()
    for pid in pids:
        until(lambda: gone(pid))


def test_a_signal_ignored_from_the_start_stays_ignored(start, tmp_path):
    os.mkfifo(tmp_path / 'go')
    run = start({'worker:0': 'echo $$ > pid; read line < go'}, ignored=[signal.SIGHUP])
    pid_in(tmp_path / 'pid')
    run.popen.send_signal(signal.SIGHUP)
    (tmp_path / 'go').write_text('\n')
    assert run.finish().code == 0


def test_an_evaluator_may_end_after_training(start):
    script = 'until [ -e go ]; do sleep .01; done; echo evaluated'
    run = start({'worker:0': ':', 'evaluator:0': script})
    (run.folder / 'go').touch()
    assert run.finish().code == 0
    assert run.out == '[evaluator:0] evaluated\n'


def test_a_grandchild_does_not_survive_its_task(start, tmp_path):
    run = start({'worker:0': '(trap "" TERM; exec sleep 600) & echo $! > pid'}).finish()
    assert run.code == 0
    until(lambda: gone(pid_in(tmp_path / 'pid')))


def test_a_grandchild_is_killed_with_its_task(start, tmp_path):
    run = start({'worker:0': '(trap "" TERM; exec sleep 600) & echo $! > pid; wait'}, grace_secs=0)
    pid = pid_in(tmp_path / 'pid')
    run.popen.send_signal(signal.SIGTERM)
    assert run.finish().code == 143
    until(lambda: gone(pid))


@pytest.mark.skipif(not shutil.which('setsid'), reason='needs setsid')
def test_a_process_that_left_the_group_cannot_hold_the_run_up(start, tmp_path):
    run = start(
        {
            'worker:0': 'setsid sh -c "echo \\$\\$ > pid; exec sleep 600" & '
            'until [ -s pid ]; do sleep .01; done; echo out'
        }
    )
    pid = pid_in(tmp_path / 'pid')
    try:
        assert run.finish().out == '[worker:0] out\n'
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_log_that_cannot_be_made_is_a_task_that_cannot_be_started(tmp_path):
    (tmp_path / 'worker-0.err').touch()
    command = task_commands.TaskCommand('worker:0', ('true',), os.environ)
    with selectors.DefaultSelector() as selector:
        with pytest.raises(task_commands.CannotStart, match='worker-0.err'):
            local_launcher.LocalLauncher(tmp_path, fakes.Console(), fakes.Console()).start(command, 0, 1, selector)
        assert not selector.get_map()


def test_what_a_task_wrote_last_is_not_lost(tmp_path):
    command = task_commands.TaskCommand('worker:0', ('sh', '-c', 'echo last words'), os.environ)
    with selectors.DefaultSelector() as selector:
        launcher = local_launcher.LocalLauncher(tmp_path, fakes.Console(), fakes.Console())
        running = launcher.start(command, 0, 1, selector)
        until(lambda: running.poll() is not None)
        running.close()  # before the pipe was ever read
    assert (tmp_path / 'worker-0.out').read_text() == 'last words\n'


@pytest.mark.skipif(not hasattr(os, 'sched_getaffinity'), reason='needs sched_setaffinity')
def test_a_task_runs_on_its_cores(start):
    core = max(os.sched_getaffinity(0))
    script = [sys.executable, '-c', 'import os; print(os.sched_getaffinity(0))']
    assert start({'worker:0': script}, cores=[core]).finish().out == f'[worker:0] {{{core}}}\n'


def test_the_signal_for_a_profile_goes_to_the_chief_and_ends_nothing(start, tmp_path):
    task = """
import pathlib, signal, sys, time
heard = pathlib.Path(sys.argv[1])
assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
signal.signal(signal.SIGUSR2, lambda *_: heard.write_text('heard'))
pathlib.Path(sys.argv[1] + '.ready').touch()
until = pathlib.Path('heard-0')
while not until.exists():
    time.sleep(0.01)
"""
    commands = {f'worker:{n}': [sys.executable, '-c', task, f'heard-{n}'] for n in range(2)}
    run = start({**commands, 'evaluator:0': 'until [ -e heard-0 ]; do sleep .01; done'})
    until(lambda: all((tmp_path / f'heard-{n}.ready').exists() for n in range(2)))
    run.popen.send_signal(signal.SIGUSR2)
    run.finish()
    assert run.code == 0 and set(run.json('outcome')['codes'].values()) == {0}
    assert 'received SIGUSR2, which asks worker:0 for a profile (--profile_tasks=chief)' in run.err
    assert not (tmp_path / 'heard-1').exists()
