"""File operations that hang, played by an event."""

import threading

import pytest

from estimator_trainer.this_process.hung_files import BoundedFiles

BOUND_SECS = 120


@pytest.fixture
def answers():
    """While it is not set, the file system hangs."""
    event = threading.Event()
    yield event
    event.set()


def test_what_it_returns_and_raises():
    files = BoundedFiles(pytest.fail, 'it', BOUND_SECS)
    assert files.call(lambda: 3, None) == 3 and not files.hang
    with pytest.raises(OSError, match='full'):
        files.call(lambda: (_ for _ in ()).throw(OSError('full')), None)
    assert files.wait(60)


def test_nothing_is_begun_while_an_operation_hangs(answers):
    said, done = [], []
    files = BoundedFiles(said.append, 'the file system of /runs', 0.01)
    assert files.call(lambda: answers.wait(BOUND_SECS), 'unknown') == 'unknown' and files.hang
    assert files.call(lambda: done.append(1), 'unknown') == 'unknown' and not done
    assert said == ['WARNING: the file system of /runs has not answered for 0.01 s; the run goes on meanwhile']
    answers.set()
    assert files.wait(60)
    assert not files.hang
    files._secs = BOUND_SECS
    assert files.call(lambda: 'known', 'unknown') == 'known'
    assert said[1:] == ['the file system of /runs answers again']


def test_where_no_thread_can_be_started(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, 'start', refuse)
    files = BoundedFiles(pytest.fail, 'it')
    assert files.call(lambda: 3, None) == 3 and not files.hang
    assert files.wait(60)
