"""The process of a run in a store and its child, without a store."""

import json
import os
import signal
import sys

import pytest

pytest.importorskip('obstore')

from estimator_trainer.config import trainer_config  # noqa: E402
from estimator_trainer.run_dir import protocol  # noqa: E402
from estimator_trainer.storage import child, signals  # noqa: E402
from estimator_trainer.storage.lease import NoLease  # noqa: E402
from estimator_trainer.storage.share import Share  # noqa: E402

ASKED = """
import os, signal, sys
assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
signal.signal(signal.SIGUSR2, lambda *_: sys.exit(7))
os.kill(os.getppid(), signal.SIGUSR2)
signal.pause()
"""


def test_the_signal_for_a_profile_is_passed_on_and_ends_nothing():
    with signals.SignalRelay(grace_secs=1) as relay:
        assert child._run([sys.executable, '-c', ASKED], dict(os.environ), lambda: False, relay) == 7
    assert relay._deadline is None and not relay.time_is_up()


IGNORES = 'import signal, sys; sys.exit(3 if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else 0)'


@pytest.mark.parametrize('handler, code', [(signal.SIG_IGN, 3), (signal.SIG_DFL, 0)])
def test_a_signal_that_was_ignored_stays_ignored_by_the_child_too(handler, code):
    before = signal.signal(signal.SIGHUP, handler)
    try:
        with signals.SignalRelay(grace_secs=1) as relay:
            if handler is signal.SIG_IGN:
                os.kill(os.getpid(), signal.SIGHUP)
            assert child._run([sys.executable, '-c', IGNORES], dict(os.environ), lambda: False, relay) == code
            assert not relay.pending
        assert signal.getsignal(signal.SIGHUP) is handler
    finally:
        signal.signal(signal.SIGHUP, before)


SAVES = """
import pathlib, signal, sys, time
def save(*_):
    time.sleep(1)
    sys.exit(9)
signal.signal(signal.SIGTERM, save)
pathlib.Path(sys.argv[1]).touch()
time.sleep(60)
"""


@pytest.mark.parametrize('secs, code', [(0.1, 128 + signal.SIGKILL), (30, 9)])
def test_a_child_that_is_stopped_saves_within_its_time(tmp_path, secs, code):
    with signals.SignalRelay(grace_secs=1) as relay:
        command, begun = [sys.executable, '-c', SAVES, str(tmp_path / 'begun')], (tmp_path / 'begun').exists
        assert child._run(command, dict(os.environ), begun, relay, secs) == code


def test_a_child_may_save_for_as_long_as_grace_secs_say():
    assert [child.kill_secs(secs) for secs in (1, 25, 600)] == [120, 120, 660]


def test_what_is_waited_for_returns_or_raises_what_it_does():
    with signals.SignalRelay(grace_secs=1) as relay:
        assert relay.wait_for(lambda: 'result') == 'result'
        with pytest.raises(ZeroDivisionError):
            relay.wait_for(lambda: 1 / 0)
        relay.check()


def test_nothing_begins_after_a_signal():
    with signals.SignalRelay(grace_secs=1) as relay, pytest.raises(signals.Stopped):
        os.kill(os.getpid(), signal.SIGTERM)
        relay.wait_for(lambda: pytest.fail('begins'))


def test_the_child_learns_which_flags_were_given():
    given = trainer_config.parse(['trainer', '--model_dir=s3://bucket/run', '--epochs=1', '--grace_secs=40'])
    environ = child.environment({'PATH': '/bin'}, given, '/scratch/run', Share(), NoLease())
    assert environ['PATH'] == '/bin'
    assert json.loads(environ[protocol.STORE])['flags'] == {
        'model_dir': 's3://bucket/run',
        'scratch_dir': '',
        'grace_secs': 40,
    }
    assert protocol.given_flags('/scratch/run', environ)['grace_secs'] == 40
    assert protocol.given_flags('/another/run', environ) == {}  # a trainer that the job starts
    assert protocol.given_flags('/scratch/run', {}) == {}
    assert protocol.copied_url('/scratch/run', environ) is None  # the folder of a whole run


def test_a_task_of_several_machines_learns_that_its_folder_is_a_copy():
    given = trainer_config.parse(['trainer', '--model_dir=s3://bucket/run', '--epochs=1'])
    environ = child.environment({}, given, '/scratch/run', Share('worker:1', 'worker'), NoLease())
    assert protocol.copied_url('/scratch/run', environ) == 's3://bucket/run'
    assert protocol.copied_url('/another/run', environ) is None
