"""The processes beside a run: what they are told, what they say, and that none holds up or outlives the run."""

import signal
import subprocess
import sys
import time
import types

import pytest

from estimator_trainer.config.two_parts import read_trainer_flags
from estimator_trainer.monitoring import senders
from estimator_trainer.monitoring.trackers import HPARAMS, WANDB, Target
from tests.processes import gone, until

TARGETS = (Target(WANDB),)
LATER = 'the next start sends it, and so does: python -m estimator_trainer track '


def sender(script):
    return (sys.executable, '-c', f'import sys; pid, folder, target = sys.argv[1:]\n{script}')


def test_what_a_sender_is_told_and_says(tmp_path):
    script = 'for line in sys.stdin: print(target, folder, line.strip(), flush=True); line == "0\\n" and sys.exit(0)'
    said = []
    with senders.Senders((*TARGETS, Target(HPARAMS)), str(tmp_path), sender=sender(script)) as running:
        running.follow(said.append)
        running.last(0)
    assert sorted(said) == sorted(
        f'{kind} {tmp_path} {word}' for kind in ('wandb', 'tensorboard-hparams') for word in ('follow', '0')
    )


@pytest.mark.parametrize('code, last_secs', [(0, 0.05), (143, 100)])
def test_one_that_hangs_is_left_and_killed(tmp_path, code, last_secs):
    said = []
    hangs = sender('import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()')
    with senders.Senders(TARGETS, str(tmp_path), last_secs, hangs, stopped_secs=0.05) as running:
        running.follow(said.append)
        running.last(code)
        process = running._processes[TARGETS[0]]
    assert process.poll() == -signal.SIGKILL
    assert said == [f'WARNING: wandb: not everything is sent yet; {LATER}{tmp_path}']


def test_one_that_fails(tmp_path):
    said = []
    with senders.Senders(TARGETS, str(tmp_path), sender=sender('sys.exit(1)')) as running:
        running.follow(said.append)
        running.last(0)
    assert said == [f'WARNING: wandb: not everything is sent yet; {LATER}{tmp_path}']


def test_one_that_cannot_be_started(tmp_path):
    said = []
    with senders.Senders(TARGETS, str(tmp_path), sender=('/nowhere/python',)) as running:
        running.follow(said.append)
        running.last(0)
    assert said == [
        f'WARNING: the process that sends to a tracker cannot be started: No such file or directory; {LATER}{tmp_path}'
    ]


def test_a_run_that_raises_waits_for_none(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with senders.Senders(TARGETS, str(tmp_path), 1000, sender('__import__("signal").pause()')) as running:
            running.follow(pytest.fail)
            1 / 0


def test_ctrl_c_at_the_end_is_not_raised(tmp_path, monkeypatch):
    hangs = sender('import signal; signal.pause()')
    pressed = types.SimpleNamespace(monotonic=time.monotonic, sleep=lambda secs: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(senders, 'time', pressed)  # while it waits
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with senders.Senders(TARGETS, str(tmp_path), 1000, hangs) as running:
            running.follow(lambda line: None)
            running.last(0)
    finally:
        signal.signal(signal.SIGINT, before)


def test_none_outlives_its_run(tmp_path):
    """A run that is killed takes them with it."""
    script = (
        'import os, sys\nfrom estimator_trainer.monitoring import senders, trackers\n'
        f'with senders.Senders((trackers.Target("tensorboard-hparams"),), {str(tmp_path)!r}) as running:\n'
        '    running.follow(print)\n'
        '    print(*(each._process.pid for each in running._processes.values()), flush=True)\n'
        '    sys.stdin.read()\n'
    )
    with subprocess.Popen(
        [sys.executable, '-c', script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        sender_pid = int(run.stdout.readline())
        lock = tmp_path / 'track' / '.tensorboard-hparams.lock'
        until(lock.exists)  # it is tied to the run before it takes its lock
        run.kill()
        run.wait()
    until(lambda: gone(sender_pid))


def test_a_wrong_flag_starts_none(tmp_path):
    with senders.for_run(['mlfow:x'], str(tmp_path)) as running:
        assert running._processes == {}


def test_the_supervisor_knows_the_flag():
    assert tuple(read_trainer_flags(['--track=wandb', '--track=mlflow:x']).config.track) == ('wandb', 'mlflow:x')
    assert tuple(read_trainer_flags([]).config.track) == ()
