"""lifecycle.watchdog: its threads, in the process of the test."""

import contextlib
import os
import signal
import threading
import types

import pytest

from estimator_trainer.lifecycle import ending, peers, signal_inbox
from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.lifecycle.probes import Answer
from estimator_trainer.run_dir import protocol, training_file
from tests.lifecycle.watched import BOUND_SECS, EVALUATING, INT, TERM
from tests.processes import until


@pytest.fixture
def live():
    """live() -> a watchdog with its threads, in this process; nothing is left of it at the end."""
    handlers = [signal.getsignal(signum) for signum in (INT, TERM)]
    with contextlib.ExitStack() as stack:
        codes = []
        yield lambda **kwargs: types.SimpleNamespace(
            codes=codes,
            watchdog=stack.enter_context(
                watchdogs.Watchdog('worker:1', watchdogs.Bounds(), {}, leave=codes.append, **kwargs)
            ),
        )
    assert [signal.getsignal(signum) for signum in (INT, TERM)] == handlers
    assert signal.set_wakeup_fd(-1) == -1
    until(lambda: not {'watchdog', 'peers'} & {thread.name for thread in threading.enumerate()})


def test_after_it_the_handlers_are_as_they_were():
    actions = [signal_inbox.c_action(signum)[:8] for signum in (INT, TERM)]
    for _ in range(20):
        with watchdogs.Watchdog('worker:1', watchdogs.Bounds(), {}, leave=lambda code: None):
            assert [signal_inbox.c_action(signum)[:8] for signum in (INT, TERM)] != actions
        assert [signal_inbox.c_action(signum)[:8] for signum in (INT, TERM)] == actions


def test_the_board_beats(live, tmp_path, monkeypatch):
    monkeypatch.setattr(training_file, 'BEAT_SECS', 0)
    monkeypatch.setattr(signal_inbox, 'LOOK_SECS', 0.01)
    live().watchdog.write_training_file(str(tmp_path), 100)
    until(lambda: protocol.read_json(str(tmp_path / 'training.json'))['beat'] > 3)


def test_lost_peers_are_looked_for(live, monkeypatch):
    monkeypatch.setattr(watchdogs, 'PEERS_EVERY_SECS', 0.01)
    monkeypatch.setattr(signal_inbox, 'LOOK_SECS', 0.01)
    monkeypatch.setattr(peers, 'RETRY_SECS', 0)
    monkeypatch.setattr(peers, 'every_secs', lambda *numbers: 0)
    there, asked = {'host:1'}, []

    def probe(addresses):
        asked.append(addresses)
        return {address: Answer.GREETS if address in there else Answer.SILENT for address in addresses}

    task = live()
    task.watchdog.watch_peers(peers.PeerWatch({'worker:0': 'host:1'}, 60, 0.05, probe=probe))
    until(lambda: len(asked) > 2)
    assert task.codes == [] and task.watchdog.missing_peers() == []
    there.clear()
    until(lambda: task.codes)
    assert task.codes == [193]
    assert [peer.name for peer in task.watchdog.missing_peers()] == ['worker:0']


def test_released_peers_are_not_asked(live, monkeypatch):
    monkeypatch.setattr(watchdogs, 'PEERS_EVERY_SECS', 0.01)
    asked = []
    task = live()
    task.watchdog.watch_peers(
        peers.PeerWatch(
            {'worker:0': 'host:1'},
            60,
            60,
            probe=lambda addresses: asked.append(addresses) or dict.fromkeys(addresses, Answer.SILENT),
        )
    )
    until(lambda: asked)
    task.watchdog.release_peers()
    until(lambda: 'peers' not in {thread.name for thread in threading.enumerate()})
    assert task.watchdog.missing_peers() == [] and task.codes == []


def test_a_signal_in_this_process(live):
    task = live()
    task.watchdog.stepped(3)
    os.kill(os.getpid(), TERM)
    until(lambda: task.watchdog.signum == TERM)
    assert task.codes == []
    task.watchdog.enter(EVALUATING)
    assert task.codes == [143]


def test_a_request_for_a_profile_in_this_process(live):
    task, asked = live(), threading.Event()
    task.watchdog.when_asked_to_profile(asked.set)
    os.kill(os.getpid(), signal.SIGUSR2)
    assert asked.wait(BOUND_SECS) and task.codes == []


@pytest.mark.parametrize('reason', ['told to stop', 'a step without an end'])
def test_a_file_system_that_hangs_ends_the_task_within_its_bounds(tmp_path, monkeypatch, capsys, reason):
    monkeypatch.setattr(training_file, 'BEAT_SECS', 0)
    monkeypatch.setattr(signal_inbox, 'LOOK_SECS', 0.01)
    monkeypatch.setattr(ending, 'READER_SECS', 0.1)
    answers, hanging, write = threading.Event(), threading.Event(), protocol.write_json

    def write_json(path, value, durable=False):
        if (tmp_path / 'training.json').exists():
            hanging.set()
            answers.wait(BOUND_SECS)
        write(path, value, durable)

    monkeypatch.setattr(protocol, 'write_json', write_json)
    codes, bounds = [], watchdogs.Bounds(grace=0.1, step=0.5 if reason == 'a step without an end' else BOUND_SECS)
    environ = {protocol.ERROR_FILE: str(tmp_path / 'error.json')}
    with watchdogs.Watchdog('trainer', bounds, environ, leave=codes.append) as watchdog:
        watchdog.write_training_file(str(tmp_path), 100)
        watchdog.trains_from(0)
        assert hanging.wait(BOUND_SECS)
        steps = threading.Thread(target=watchdog.stepped, args=(1,), daemon=True)
        steps.start()
        steps.join(BOUND_SECS / 4)
        assert not steps.is_alive()  # a step does not wait for it either
        if reason == 'told to stop':
            os.kill(os.getpid(), TERM)
        until(lambda: codes)
        answers.set()
    assert codes == [196 if reason == 'told to stop' else 195]
    assert 'trainer, step 1: ' in capsys.readouterr().err
