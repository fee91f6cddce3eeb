"""lifecycle.watchdog: what ends a task, by a clock of the test's."""

import contextlib
import json
import os
import signal
import sys
import threading

import pytest

from estimator_trainer.lifecycle import ending, peers
from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.run_dir import protocol
from tests.lifecycle.watched import CLOSING, EVALUATING, GRACE, INT, SERVING, STARTING, STEP, TERM, TRAINING, Task


@pytest.mark.parametrize('phase, secs, code', [(STARTING, 0, 143), (TRAINING, GRACE, 196), (SERVING, GRACE, 143)])
def test_a_signal_ends_the_task_when_its_time_is_over(phase, secs, code):
    task = Task(phase).signal(TERM)
    assert (task.codes, task.watchdog.signum) == ([] if secs else [code], TERM)
    assert task.at(secs).codes == [code]


def test_a_second_signal_ends_at_once():
    task = Task(TRAINING).signal(TERM).signal(INT, 0.1)
    assert (task.codes, task.watchdog.signum) == ([196], TERM)


def test_a_task_that_was_told_by_another():
    task = Task(TRAINING)
    task.watchdog.obey(TERM)
    assert (task.watchdog.signum, task.watchdog.stopped_by, task.watchdog.follows) == (None, TERM, True)
    assert task.signal(TERM, 5).codes == []
    assert (task.watchdog.signum, task.watchdog.stopped_by, task.watchdog.follows) == (TERM, TERM, True)
    assert task.at(GRACE).codes == [196]


def test_sighup_is_an_order_to_stop():
    task = Task(TRAINING).signal(signal.SIGHUP)
    assert (task.watchdog.signum, task.watchdog.name_of(TERM)) == (TERM, 'SIGHUP')
    assert task.at(GRACE).codes == [196]


def test_what_comes_after_training_is_not_begun_when_asked_to_stop():
    task = Task(CLOSING).signal(TERM)
    assert task.codes == []
    task.watchdog.enter(EVALUATING)
    assert task.codes == [143]


@pytest.mark.parametrize('ever_seen, code', [(True, 193), (False, 194)])
def test_a_peer_that_is_gone(ever_seen, code, capsys):
    assert Task(TRAINING).lose(ever_seen).codes == [code]
    assert 'worker:0 at host:1' in capsys.readouterr().err


def test_peers_that_were_released_may_be_gone():
    task = Task(TRAINING)
    task.watchdog._note(gone=peers.SilentPeer('worker:0', 'host:1', True, 31))
    task.watchdog.release_peers()
    assert task.at(0).codes == [] and task.watchdog.missing_peers() == []


@pytest.mark.parametrize('phase', [TRAINING, CLOSING])
def test_a_step_that_does_not_end(phase):
    assert Task(phase).at(STEP - 0.1).codes == []
    assert Task(phase).at(STEP).codes == [195]


@pytest.mark.parametrize(
    'tell',
    [
        lambda watchdog: watchdog.stepped(8),
        lambda watchdog: watchdog.saved(8),
        lambda watchdog: watchdog.enter(EVALUATING),
    ],
)
def test_the_bound_of_a_step_begins_anew(tell):
    task = Task(TRAINING).at(STEP - 1)
    tell(task.watchdog)
    assert task.at(2 * STEP - 2).codes == []


@pytest.mark.parametrize('bounds, code', [(dict(step=60), 195), (dict(grace=60), 196)])
def test_a_pause_of_this_process_is_no_slow_step(bounds, code):
    """It was stopped, its machine was suspended, or C code has held Python's global lock."""
    now, codes = 0, []
    watchdog = watchdogs.Watchdog(
        'worker:1',
        watchdogs.Bounds(**{'step': STEP, 'grace': STEP, **bounds}),
        {},
        peers.AwakeClock(lambda: now),
        codes.append,
    )
    watchdog.stepped(7)
    if code == 196:
        watchdog._received(TERM)
    for now in [*range(50), *range(10_000, 10_004)]:
        watchdog._end_if_due()
    assert codes == []
    for now in range(10_004, 10_050):
        watchdog._end_if_due()
    assert codes == [code]


def test_training_goes_on_after_an_evaluation():
    task = Task(EVALUATING)
    task.watchdog.stepped(8)
    assert task.signal(TERM).codes == []
    assert task.at(STEP).codes == [196]


def test_stacks_of_a_step_that_does_not_end(capfd):
    Task(TRAINING).at(STEP)
    assert 'test_stacks_of_a_step_that_does_not_end' in capfd.readouterr().err


def test_the_stack_of_the_main_thread_is_there_among_hundreds(capfd):
    go = threading.Event()
    threads = [threading.Thread(target=go.wait, args=(60,)) for _ in range(150)]
    for thread in threads:
        thread.start()
    ending.print_stacks()
    go.set()
    for thread in threads:
        thread.join()
    assert 'test_the_stack_of_the_main_thread_is_there_among_hundreds' in capfd.readouterr().err


def test_the_last_line_and_the_error_file(tmp_path, capsys):
    path = tmp_path / 'error.json'
    task = Task(TRAINING, {protocol.ERROR_FILE: str(path)})
    task.watchdog.saved(6)
    task.signal(TERM).at(GRACE)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith('worker:1, step 7: the last step was not saved within 25 s of SIGTERM')
    assert 'at step 6' in line and '[exit code 196: ' in line
    told = json.loads(path.read_text())
    assert (told['task'], told['code'], told['step'], told['peer']) == ('worker:1', 196, 7, None)


def test_a_task_ends_once(capsys):
    task = Task(TRAINING).lose(True)
    task.watchdog.end(ending.End(1, 'too late'))
    task.at(10**6).signal(TERM)
    assert task.codes == [193]
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_main_thread_says_it_first():
    task = Task(TRAINING)
    task.watchdog.end(ending.End(70, 'NaN'))
    assert task.lose(True).codes == []


def test_a_reader_that_is_gone_does_not_keep_the_task(monkeypatch, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, 'w') as broken:
        monkeypatch.setattr(sys, 'stderr', broken)
        task = Task(TRAINING, {protocol.ERROR_FILE: str(tmp_path / 'error.json')}).lose(True)
        monkeypatch.undo()
        with contextlib.suppress(BrokenPipeError):
            broken.close()
    assert task.codes == [193] and (tmp_path / 'error.json').exists()


def test_requests_for_a_profile_reach_who_makes_it():
    task, asked = Task(), []
    task.watchdog._ask_for_a_profile()  # early: nobody makes profiles yet
    task.watchdog.when_asked_to_profile(lambda: asked.append('early'))
    assert asked == ['early']
    task.watchdog._ask_for_a_profile()
    assert asked == ['early', 'early'] and task.codes == [] and task.watchdog.signum is None
