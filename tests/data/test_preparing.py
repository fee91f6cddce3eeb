"""data.preparing: data that are prepared for hours are no stall, and nobody waits for ever for who prepares them."""

import os
import threading

import pytest

from estimator_trainer.data import preparing
from estimator_trainer.run_dir import locks

BOUND_SECS = 30


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    monkeypatch.setattr(preparing, 'LOOK_SECS', 0.01)


def test_whoever_asks_is_told_until_the_data_are_there():
    heard = []
    preparing.advance(5)
    with preparing.told_to(heard.append):
        preparing.advance()
        preparing.advance(7)
    preparing.advance()
    assert heard == [1, 8]


@pytest.mark.parametrize('change', ['write', 'renew'])
def test_what_any_process_does_in_the_folder_is_an_advance(tmp_path, change):
    (tmp_path / 'set').mkdir()
    (tmp_path / 'set/.lock').touch()
    sign, heard = preparing.Heartbeat(str(tmp_path / 'set/.lock')), threading.Event()
    with preparing.told_to(lambda amount: heard.set()), preparing.as_it_changes(str(tmp_path)):
        for number in range(3000):  # the first look may come after the first change
            if change == 'write':
                (tmp_path / f'part-{number}').write_text('x')
            else:
                sign.renew()
            if heard.wait(BOUND_SECS / 3000):
                break
    assert heard.is_set()


def test_who_waits_gives_up_when_nothing_changes_any_more(tmp_path):
    clock = type('Clock', (), {'now': 100.0})()
    patience = preparing.WhileItAdvances(1800, lambda: clock.now)
    with locks.Lock(tmp_path / '.lock') as other, locks.Lock(tmp_path / '.lock') as mine:
        assert other.take()

        def sleep(secs):
            clock.now += 60
            if clock.now < 10_000:
                patience.advanced()

        with pytest.raises(locks.Held, match=f'process {os.getpid()}'):
            mine.wait(patience, clock=lambda: clock.now, sleep=sleep)
    assert 10_000 + 1700 < clock.now < 10_000 + 1900


def test_amounts_of_several_threads_come_in_order():
    heard, is_first = [], threading.Event()

    def listener(amount):
        if not is_first.is_set():
            is_first.set()
            thread.join(0.1)  # the other thread has time to come in between
        heard.append(amount)

    with preparing.told_to(listener):
        thread = threading.Thread(target=lambda: (is_first.wait(), preparing.advance()))
        thread.start()
        preparing.advance()
        thread.join()
    assert heard == [1, 2]
