"""Gangs on other machines, without Ray and TensorFlow: hosts of this process, whose trainer is a shell script."""

import contextlib
import json
import os
import pathlib
import random
import signal
import stat
import time

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import protocol
from estimator_trainer.submit import description as descriptions
from estimator_trainer.submit import remote, remote_supervisor
from estimator_trainer.supervisor.policy import restarts
from estimator_trainer.this_process.console import Console
from tests.fakes import Changed, LocalCluster

# $who is the task, $attempt the gang. `lives` counts the starts of a task in one gang.
TRAINER = """#!/bin/sh
cd {folder}
rest=${{TF_CONFIG##*'"type":"'}}
index=${{rest##*:}}
who=${{rest%%'"'*}}:${{index%%'}}'*}}
attempt=${{ESTIMATOR_TRAINER_GENERATION%%-*}}
echo "$who" >> started-$attempt
lives=$(grep -c "$who" started-$attempt)
board() {{  # step
  printf '{{"state":"training","step":%s,"checkpoint_step":%s,"generation":"%s"}}' "$1" "$1" \\
    "$ESTIMATOR_TRAINER_GENERATION" > board.$$ && mv board.$$ training.json
}}
error() {{  # code, step
  printf '{{"code":%s,"step":%s,"message":"so it is","peer":null}}' "$1" "$2" > "$ESTIMATOR_TRAINER_ERROR_FILE"
  exit "$1"
}}
wait_for() {{
  n=0; until [ -e "$1" ]; do n=$((n + 1)); [ $n -lt 500 ] || exit 99; sleep .02; done
}}
{body}
"""


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(remote, 'POLL_SECS', 0.02)
    monkeypatch.setattr(remote_supervisor, 'AGAIN_SECS', 0)
    monkeypatch.setattr(restarts.Rules, 'delay', lambda *args: 0.0)


@pytest.fixture
def run(tmp_path, quick, capfd):
    """(body of the trainer, roles and further keys) -> (exit code, what was said)."""

    def run(body, cluster=None, roles=None, **keys):
        script = tmp_path / 'trainer.sh'
        script.write_text(TRAINER.format(folder=tmp_path, body=body))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        description = descriptions.parse(
            {
                'name': 'test',
                'flagfile': 'f.flags',
                'model_dir': str(tmp_path),
                'python': str(script),
                'grace_secs': 10,
                'roles': roles or {'worker': {'count': 2}},
                **keys,
            }
        )
        with Console(2, colour=False) as console:
            code = remote_supervisor.RemoteSupervisor(
                description, cluster or LocalCluster(), console, random.Random(0)
            ).run()
        return code, capfd.readouterr().err

    return run


def starts(folder, attempt):
    return sorted((folder / f'started-{attempt}').read_text().split())


def test_a_gang_that_is_done(run, tmp_path):
    code, said = run('echo "$@" > argv-$who; env > env-$who', environment={'MINE': 'a b'}, working_dir=str(tmp_path))
    assert code == 0
    assert 'done, after 0 restart(s)' in said
    assert (tmp_path / 'argv-worker:1').read_text().split() == [
        '-m',
        'estimator_trainer',
        '--intra_op_threads=1',
        '--flagfile=f.flags',
        f'--model_dir={tmp_path}',
        '--grace_secs=5',
        '--cluster_from=tf_config',
    ]
    environ = dict(line.split('=', 1) for line in (tmp_path / 'env-worker:1').read_text().splitlines())
    config = json.loads(environ['TF_CONFIG'])
    assert config['task'] == {'type': 'worker', 'index': 1}
    assert len(set(config['cluster']['worker'])) == 2
    assert environ['MINE'] == 'a b'
    assert environ[protocol.GENERATION].startswith('1-')
    assert float(environ[protocol.STARTED]) <= time.time()


@pytest.mark.parametrize('flag, secs', [('7200', 7200), ('60', 1800), ('0', 0)])
def test_a_gang_has_the_time_for_a_step_that_its_trainers_have(flag, secs):
    value = {'name': 'm', 'flagfile': 'f.flags', 'model_dir': '/runs/m', 'roles': {'worker': {}}}
    description = descriptions.parse({**value, 'args': [f'--step_timeout_secs={flag}']})
    console = Console(None, colour=False)
    supervisor = remote_supervisor.RemoteSupervisor(description, LocalCluster(), console, random.Random(0))
    assert supervisor._limits.stall_timeout == secs


def test_one_task_is_a_process_of_its_own(run, tmp_path):
    code, _ = run('env > env-alone', roles={'worker': {}})
    assert code == 0
    assert 'TF_CONFIG=' not in (tmp_path / 'env-alone').read_text()


def test_a_killed_task_restarts_the_gang(run, tmp_path):
    cluster = LocalCluster()
    code, said = run('[ $attempt = 2 ] && exit 0; [ $who = worker:1 ] && kill -9 $$; sleep 600', cluster)
    assert code == 0
    assert cluster.gangs == 2
    assert 'worker:1 ended with SIGKILL' in said and 'killing worker:0' in said
    assert 'restart 1 of 3' in said
    assert starts(tmp_path, 2) == ['worker:0', 'worker:1']


@pytest.mark.parametrize('code', [exit_codes.NOT_FINITE, exit_codes.USAGE])
def test_a_permanent_failure_ends_the_run(run, code):
    cluster = LocalCluster()
    assert run(f'[ $who = worker:0 ] && exit {code}; sleep 600', cluster)[0] == code
    assert cluster.gangs == 1


def test_the_cause_counts_and_not_who_missed_it(run):
    body = f'[ $who = worker:0 ] && exit {exit_codes.LOST_PEER}; wait_for started-1; exit {exit_codes.CANNOT_WRITE}'
    assert run(body)[0] == exit_codes.CANNOT_WRITE


def test_restarts_are_spent(run):
    cluster = LocalCluster()
    code, said = run(f'exit {exit_codes.STALLED}', cluster, max_restarts=2)
    assert (code, cluster.gangs) == (exit_codes.RESTARTS_SPENT, 3)
    assert 'were made without a new checkpoint' in said


def test_an_exception_that_comes_again_is_not_retried(run):
    cluster = LocalCluster()
    assert run('[ $who = worker:0 ] && error 1 30; sleep 600', cluster)[0] == exit_codes.FAILED
    assert cluster.gangs == 2


def test_a_new_checkpoint_gives_the_restarts_back(run):
    """Each gang saves further than the one before, and the driver has seen it."""
    body = """
    [ $attempt = 4 ] && exit 0
    [ $who = worker:0 ] && board $attempt && touch saved-$attempt && wait_for seen-$attempt
    [ $who = worker:0 ] && exit 195
    sleep 600"""

    def watched(gang, name, host):
        def training(model_dir):
            board = host.training(model_dir)
            if board.get('checkpoint_step') == gang:
                pathlib.Path(model_dir, f'seen-{gang}').touch()
            return board

        return Changed(host, training=training)

    cluster = LocalCluster(watched)
    assert run(body, cluster, max_restarts=1)[0] == 0
    assert cluster.gangs == 4


def test_an_evaluator_is_restarted_alone(run, tmp_path):
    roles = {'worker': {'count': 2}, 'evaluator': {}}
    code, said = run(
        """
    case $who in
      evaluator:0) [ $lives = 1 ] && kill -9 $$; touch evaluated;;
      *) wait_for evaluated;;
    esac""",
        roles=roles,
    )
    assert code == 0
    assert 'restarting it alone' in said
    assert starts(tmp_path, 1) == ['evaluator:0', 'evaluator:0', 'worker:0', 'worker:1']


def test_a_lost_node_restarts_the_gang(run):
    def poll():
        raise remote.HostLost('the node was unplugged')

    cluster = LocalCluster(
        lambda gang, name, host: Changed(host, poll=poll) if (gang, name) == (1, 'worker:1') else host
    )
    code, said = run('[ $attempt = 2 ] || sleep 600', cluster)
    assert (code, cluster.gangs) == (0, 2)
    assert 'the node was unplugged' in said


class Unreachable(LocalCluster):
    """Where hosts seem to be, and are not, so many times."""

    def __init__(self, times):
        super().__init__()
        self._times = times

    @contextlib.contextmanager
    def hosts(self, names):
        if self._times:
            self._times -= 1
            raise remote.HostLost('no answer')
        with super().hosts(names) as hosts:
            yield hosts


def test_room_on_a_node_that_has_just_been_lost_costs_no_restart(run):
    code, said = run('', Unreachable(3), max_restarts=0)
    assert code == 0
    assert said.count('no task can be started: no answer') == 3


def test_no_room_for_long(run, monkeypatch):
    monkeypatch.setattr(remote_supervisor, 'ROOM_SECS', 0)
    code, said = run('', Unreachable(10**6))
    assert code == exit_codes.NO_PEER
    assert 'no answer' in said


def test_a_trainer_that_cannot_be_started_names_itself(run, tmp_path):
    code, said = run('', python=str(tmp_path / 'no-such'), max_restarts=0)
    assert code == 127
    assert 'no-such: No such file or directory' in said


def test_no_room(run, monkeypatch):
    monkeypatch.setattr(remote_supervisor, 'ROOM_SECS', 0)
    cluster = LocalCluster(room=lambda: False)
    code, said = run('', cluster)
    assert (code, cluster.gangs) == (exit_codes.NO_PEER, 0)
    assert 'no room for all 2 task(s)' in said


def signalling(folder, task, condition):
    """A cluster that sends SIGTERM to this process, once, when `condition()` holds as a task is polled."""

    def change(gang, name, host):
        def poll():
            if condition() and not (folder / 'sent').exists():
                os.kill(os.getpid(), signal.SIGTERM)
                (folder / 'sent').touch()
            return host.poll()

        return Changed(host, poll=poll) if name == task else host

    return LocalCluster(change)


def test_a_signal_stops_all_tasks_and_they_may_save(run, tmp_path):
    cluster = signalling(tmp_path, 'worker:0', lambda: len(list(tmp_path.glob('here-*'))) == 2)
    code, _ = run(
        """
    trap 'touch saved-$who; exit 143' TERM
    touch here-$who
    n=0; while [ $n -lt 1000 ]; do n=$((n + 1)); sleep .02; done""",
        cluster,
    )
    assert (code, cluster.gangs) == (exit_codes.TERMINATED, 1)
    assert sorted(path.name for path in tmp_path.glob('saved-*')) == ['saved-worker:0', 'saved-worker:1']


def test_a_signal_while_a_failed_gang_is_stopped_leaves_it_at_that(run, tmp_path):
    cluster = signalling(tmp_path, 'worker:1', (tmp_path / 'stopping').exists)
    code, _ = run(
        """
    [ $who = worker:0 ] && wait_for ready && exit 143
    trap 'touch stopping; wait_for sent; exit 143' TERM
    touch ready
    n=0; while [ $n -lt 1000 ]; do n=$((n + 1)); sleep .02; done""",
        cluster,
    )
    assert (code, cluster.gangs) == (exit_codes.TERMINATED, 1)


def test_a_signal_while_there_is_no_room_ends_the_run(run):
    cluster = LocalCluster(room=lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert run('', cluster)[0] == exit_codes.TERMINATED


def test_roles_that_make_no_cluster_are_refused(run):
    with pytest.raises(UsageError, match=r'roles.*parameter_server'):
        run('', roles={'worker': {'count': 2}, 'ps': {}})
