"""The supervisor with shell children. It runs in a process of its own, so every test is bounded:
at the bound it is killed, and the kernel takes its children along."""

import contextlib
import dataclasses
import json
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import sys

import pytest

from estimator_trainer.supervisor import launcher
from estimator_trainer.supervisor.gang import Gang
from estimator_trainer.supervisor.policy import task_commands
from estimator_trainer.supervisor.policy.gang_limits import Limits
from estimator_trainer.supervisor.processes import local_launcher
from estimator_trainer.supervisor.processes.console import Console
from estimator_trainer.this_process import signal_pipe
from tests.processes import BOUND_SECS, gone, pid_in, until

ROOT = pathlib.Path(__file__).parents[2]
FOREVER = 'exec sleep 600'

SUPERVISE = """
import json, os, pathlib, sys
from estimator_trainer.supervisor.policy import task_commands
from estimator_trainer.run_dir import protocol
from estimator_trainer.this_process import signal_pipe
from estimator_trainer.supervisor.processes import console
from estimator_trainer.supervisor.processes.console import Console
from estimator_trainer.supervisor.policy.gang_limits import Limits
from estimator_trainer.supervisor.gang import Gang
from estimator_trainer.supervisor.processes.local_launcher import LocalLauncher
tasks, folder, grace_secs, drain_secs = json.loads(sys.argv[1])
gang = [task_commands.TaskCommand(name, tuple(argv), dict(os.environ),
                     trains=name.startswith(('chief', 'worker')), cores=tuple(cores),
                     serves_for_ever='server.join' in argv[-1])
        for name, argv, cores in tasks]
console.DRAIN_SECS = 60  # a test reads all there is, on a slow machine too
out, err = Console(1, False), Console(2, False)
launcher = LocalLauncher(pathlib.Path(folder), out, err)
runner = Gang(launcher, Limits(grace_secs, drain_secs), err)
with out, err, signal_pipe.Signals(also=(protocol.PROFILE_SIGNAL,)) as caught:
    outcome = runner.run(gang, caught)
(pathlib.Path(folder) / 'outcome').write_text(json.dumps({
    'why': outcome.end.kind.name,
    'cause': outcome.end.cause and outcome.end.cause.name,
    'how': {task.name: task.how.value for task in outcome.ended},
    'late': outcome.end.late,
    'codes': {task.name: task.code for task in outcome.ended}}))
sys.exit(outcome.end.exit_code)
"""


@dataclasses.dataclass
class Run:
    """A supervisor in its own process."""

    folder: pathlib.Path
    popen: subprocess.Popen

    def finish(self):
        out, err = self.popen.communicate(timeout=BOUND_SECS)
        self.out, self.err, self.code = out.decode(), err.decode(), self.popen.returncode
        outcome = self.folder / 'outcome'
        self.outcome = json.loads(outcome.read_text()) if outcome.exists() else None
        return self


@pytest.fixture
def start(tmp_path):
    """start({'worker:0': 'shell script', …}) -> Run. Tasks run in tmp_path."""
    with contextlib.ExitStack() as runs:

        def start(tasks, grace_secs=10, drain_secs=60, cores=(), ignored=()):
            commands = [
                [name, script if isinstance(script, list) else ['sh', '-c', script], list(cores)]
                for name, script in tasks.items()
            ]
            popen = subprocess.Popen(
                [sys.executable, '-c', SUPERVISE, json.dumps([commands, str(tmp_path), grace_secs, drain_secs])],
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


@pytest.fixture
def quiet():
    """A console that shows nothing."""
    return Console(None, False)


def test_all_end_with_0(start):
    run = start({'worker:0': 'echo hello', 'worker:1': 'printf "a\\nb" >&2', 'ps:0': ':'}).finish()
    assert run.code == 0
    assert run.outcome['why'] == 'DONE'
    assert run.outcome['codes'] == {'worker:0': 0, 'worker:1': 0, 'ps:0': 0}
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


def test_a_failure_kills_the_others(start):
    run = start({'worker:0': FOREVER, 'worker:1': 'exit 3', 'evaluator:0': FOREVER}).finish()
    assert run.code == 3
    assert run.outcome['cause'] == 'worker:1'
    assert run.outcome['codes'] == {'worker:1': 3, 'worker:0': -9, 'evaluator:0': -9}
    assert run.outcome['how']['worker:0'] == 'killed by the supervisor'
    assert 'worker:1 ended with exit code 3' in run.err
    assert 'killing worker:0, evaluator:0' in run.err


def test_a_stop_in_good_order_stops_the_others(start):
    run = start({'worker:0': FOREVER, 'worker:1': 'exit 143'}).finish()
    assert run.code == 143
    assert run.outcome['cause'] == 'worker:1'
    assert run.outcome['codes'] == {'worker:1': 143, 'worker:0': -15}
    assert run.outcome['how']['worker:0'] == 'stopped by the supervisor'
    assert 'stopping worker:0 (SIGTERM' in run.err


def test_a_death_by_signal_is_a_failure(start):
    run = start({'worker:0': FOREVER, 'worker:1': 'kill -9 $$'}).finish()
    assert run.code == 137
    assert run.outcome['cause'] == 'worker:1'


def test_a_task_that_ends_well_does_not_end_the_others(start, tmp_path):
    os.mkfifo(tmp_path / 'go')
    run = start({'worker:0': 'echo $$ > pid', 'worker:1': 'read line < go'})
    pid = pid_in(tmp_path / 'pid')
    until(lambda: gone(pid))
    (tmp_path / 'go').write_text('\n')
    assert run.finish().outcome['codes'] == {'worker:0': 0, 'worker:1': 0}


def test_who_ignores_sigterm_is_killed_after_the_grace(start, tmp_path):
    os.mkfifo(tmp_path / 'ready')
    run = start(
        {'worker:0': f'trap "" TERM; echo > ready; {FOREVER}', 'worker:1': 'read line < ready; exit 143'},
        grace_secs=0.2,
    ).finish()
    assert run.code == 143
    assert run.outcome['codes'] == {'worker:1': 143, 'worker:0': -9}
    assert 'killing worker:0' in run.err


def test_who_heeds_sigterm_has_time_to_end(start, tmp_path):
    os.mkfifo(tmp_path / 'ready')
    run = start(
        {
            'worker:0': 'trap "echo saved; exit 143" TERM; echo > ready; while :; do sleep .01; done',
            'worker:1': 'read line < ready; exit 143',
        }
    ).finish()
    assert run.out == '[worker:0] saved\n'
    assert run.outcome['codes'] == {'worker:1': 143, 'worker:0': 143}


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


@pytest.mark.parametrize('signum, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_forwarded(start, tmp_path, signum, code):
    """As Ctrl-C, or as SIGTERM."""
    run = start({'worker:0': f'echo $$ > pid; {FOREVER}'})
    pid_in(tmp_path / 'pid')
    run.popen.send_signal(signum)
    assert run.finish().code == code
    assert run.outcome['why'] == 'SIGNALLED'
    assert run.outcome['codes'] == {'worker:0': -2 if signum == signal.SIGINT else -15}
    assert run.outcome['how'] == {'worker:0': 'stopped by the supervisor'}
    if signum == signal.SIGINT:
        assert 'received Ctrl-C; stopping worker:0 (Ctrl-C, SIGKILL after 10 s; a second Ctrl-C kills' in run.err
        assert 'SIGTERM' not in run.err


def test_a_second_ctrl_c_kills_at_once(start, tmp_path):
    stubborn = 'trap "echo > termed" INT; echo $$ > pid; while :; do sleep .01; done'
    run = start({'worker:0': stubborn}, grace_secs=600)
    pid_in(tmp_path / 'pid')
    run.popen.send_signal(signal.SIGINT)
    until((tmp_path / 'termed').exists)
    run.popen.send_signal(signal.SIGTERM)  # not Ctrl-C: changes nothing
    run.popen.send_signal(signal.SIGINT)
    assert run.finish().code == 130
    assert run.outcome['codes'] == {'worker:0': -9}


def test_a_signal_ignored_from_the_start_stays_ignored(start, tmp_path):
    os.mkfifo(tmp_path / 'go')
    run = start({'worker:0': 'echo $$ > pid; read line < go'}, ignored=[signal.SIGHUP])
    pid_in(tmp_path / 'pid')
    run.popen.send_signal(signal.SIGHUP)
    (tmp_path / 'go').write_text('\n')
    assert run.finish().code == 0


def test_what_goes_on_after_training_is_given_a_bound(start):
    worker = 'until [ -s pid ]; do sleep .01; done; while kill -0 $(cat pid); do sleep .01; done'  # it is collected
    evaluator = 'echo $$ > new; mv new pid'
    run = start({'worker:0': worker, 'ps:0': FOREVER, 'evaluator:0': evaluator}, drain_secs=0.2).finish()
    assert run.code == 1
    assert (run.outcome['why'], run.outcome['late']) == ('NOT_DRAINED', ['ps:0'])
    assert 'at most 0.2 s (--drain_secs)' in run.err
    assert 'stopping ps:0' in run.err


SERVES = f'# server.join\n{FOREVER}'


def test_who_serves_for_ever_is_stopped_when_all_others_are_done(start):
    tasks = {'chief:0': ':', 'worker:0': ':', 'ps:0': SERVES, 'ps:1': SERVES, 'evaluator:0': 'sleep .3'}
    run = start(tasks).finish()
    assert (run.code, run.outcome['why'], run.outcome['late']) == (0, 'DONE', [])
    assert {run.outcome['how'][name] for name in ('ps:0', 'ps:1')} == {'stopped by the supervisor'}
    assert 'waiting for evaluator:0 to end' in run.err or 'evaluator:0' not in run.err
    assert 'all other tasks are done, and ps:0, ps:1 would wait for ever; stopping ps:0, ps:1' in run.err


def test_who_serves_for_ever_and_hears_no_order_is_killed_and_the_gang_is_done(start):
    deaf = '# server.join\ntrap "" TERM; touch deaf; while :; do sleep .01; done'
    worker = 'until [ -e deaf ]; do sleep .01; done'
    run = start({'chief:0': worker, 'ps:0': deaf}, grace_secs=0.2).finish()
    assert (run.code, run.outcome['why'], run.outcome['codes']['ps:0']) == (0, 'DONE', -9)


def test_an_evaluator_that_does_not_end_is_late_and_who_serves_for_ever_is_not(start):
    run = start({'chief:0': ':', 'ps:0': SERVES, 'evaluator:0': FOREVER}, drain_secs=0.2).finish()
    assert (run.code, run.outcome['why'], run.outcome['late']) == (1, 'NOT_DRAINED', ['evaluator:0'])


def test_the_end_of_who_serves_for_ever_is_a_failure_while_others_run(start):
    run = start({'chief:0': FOREVER, 'ps:0': '# server.join\nexit 7'}).finish()
    assert (run.code, run.outcome['why'], run.outcome['cause']) == (7, 'FAILED', 'ps:0')


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


def test_a_task_that_cannot_be_started_ends_those_that_were(tmp_path, quiet):
    first = task_commands.TaskCommand('worker:0', ('sh', '-c', FOREVER), os.environ)
    gang = [
        first,
        dataclasses.replace(first, name='worker:1', argv=('/no/such/program',)),
        dataclasses.replace(first, name='worker:2'),
    ]
    runner = Gang(local_launcher.LocalLauncher(tmp_path, quiet, quiet), Limits(), quiet)
    with signal_pipe.Signals() as caught:
        outcome = runner.run(gang, caught)
    assert [(end.name, end.code) for end in outcome.ended] == [('worker:1', 1), ('worker:0', -9)]
    cause = outcome.end.cause
    assert (cause.name, cause.code, cause.ended.never_started) == ('worker:1', 1, True)
    assert 'No such file or directory' in cause.ended.error.message


def test_a_log_that_cannot_be_made_is_a_task_that_cannot_be_started(tmp_path, quiet):
    (tmp_path / 'worker-0.err').touch()
    command = task_commands.TaskCommand('worker:0', ('true',), os.environ)
    with selectors.DefaultSelector() as selector:
        with pytest.raises(launcher.CannotStart, match='worker-0.err'):
            local_launcher.LocalLauncher(tmp_path, quiet, quiet).start(command, 0, 1, selector)
        assert not selector.get_map()


def test_what_a_task_wrote_last_is_not_lost(tmp_path, quiet):
    command = task_commands.TaskCommand('worker:0', ('sh', '-c', 'echo last words'), os.environ)
    with selectors.DefaultSelector() as selector:
        running = local_launcher.LocalLauncher(tmp_path, quiet, quiet).start(command, 0, 1, selector)
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
    assert run.code == 0 and set(run.outcome['codes'].values()) == {0}
    assert 'received SIGUSR2, which asks worker:0 for a profile (--profile_tasks=chief)' in run.err
    assert not (tmp_path / 'heard-1').exists()
