"""When the thread that sends a run looks again, and when it ends the run."""

import errno
import logging
import os
import types

import pytest

from estimator_trainer import exit_codes
from estimator_trainer.storage.lease import NoLease
from estimator_trainer.storage.send_speed import SendSpeed
from estimator_trainer.storage.sender import Sender
from estimator_trainer.storage.snapshot import Unsteady
from estimator_trainer.storage.store import StoreRefused, StoreUnavailable


class Mirror:
    """`during` is called in each pass, with the mirror."""

    last, advances, unsteady = None, 0, ()

    def __init__(self, during):
        self.during, self.passes = during, 0

    def has_news(self):
        return False

    def push(self):
        self.passes += 1
        self.during(self)
        return True


class Clock:
    """Its time passes where the sender waits."""

    now = 0.0

    def __call__(self):
        return self.now

    def wait(self, secs):
        self.now += secs or 0.1
        return False

    is_set = staticmethod(lambda: False)


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, 'estimator_trainer')
    return lambda: [record.getMessage() for record in caplog.records]


def play(during, ended=True, max_unpushed_secs=100):
    """The sender of a run, when it has nothing to do any more, and its clock."""
    clock = Clock()
    sender = Sender(Mirror(during), NoLease(), max_unpushed_secs, SendSpeed(25, 15), clock)
    sender._over = clock
    if ended:
        sender.send_the_rest()
    sender._send()
    return sender, clock


def test_a_run_that_ends_within_a_pass_is_sent_at_once():
    sender = types.SimpleNamespace()
    mirror = Mirror(during=lambda mirror: sender.of.send_the_rest())
    sender.of = Sender(mirror, NoLease(), 100, SendSpeed(25, 15), clock=lambda: 0)  # no time passes
    with sender.of:
        sender.of._thread.join(20)
        assert sender.of.all_sent and mirror.passes == 2


def test_a_store_that_takes_no_checkpoint_is_warned_of_and_ends_the_run(said):
    def during(mirror):
        raise StoreUnavailable('model.ckpt-20.data: no answer')

    sender, clock = play(during, ended=False)
    assert sender.verdict.code == exit_codes.NOT_SENT and 'no answer' in sender.verdict.why
    assert 100 <= clock.now < 200
    assert said()[0].startswith('WARNING: model.ckpt-20.data: no answer; not everything could be sent for')


def test_what_gets_through_at_last_is_counted(said):
    def during(mirror):
        if mirror.passes < 50:
            mirror.advances += mirror.passes % 4 == 0
            raise StoreUnavailable('no answer')
        reached.append(mirror)
        raise StoreRefused('AccessDenied')

    reached: list = []
    sender, clock = play(during, ended=False, max_unpushed_secs=20)
    assert reached and clock.now > 100
    assert sender.verdict.code == exit_codes.CANNOT_WRITE


def test_a_full_scratch_folder_is_waited_for_as_a_store_that_refuses(said):
    def during(mirror):
        if mirror.passes < 5:
            raise OSError(28, 'No space left on device', 'sent.json.tmp')

    sender, _ = play(during)
    assert sender.all_sent and sender.verdict is None

    def for_ever(mirror):
        raise OSError(28, 'No space left on device', 'sent.json.tmp')

    sender, clock = play(for_ever)
    assert sender.verdict.code == exit_codes.CANNOT_WRITE and 'No space left on device' in sender.verdict.why
    assert 60 <= clock.now < 120 and any('No space left' in line for line in said())


def test_an_error_of_the_scratch_folder_that_may_pass_is_one_that_a_restart_may_mend():
    def during(mirror):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), 'sent.json')

    sender, clock = play(during)
    assert sender.verdict.code == exit_codes.FILES_AWAY and 60 <= clock.now < 120


def test_a_file_that_still_changes_when_the_run_has_ended_is_left_out_at_last(said):
    def during(mirror):
        mirror.unsteady = ['a.log']

    sender, clock = play(during)
    assert sender.all_sent and sender.verdict is None and 60 <= clock.now < 120
    assert 'changes again and again' in said()[-1] and said()[-1].endswith('a.log')


def test_a_checkpoint_that_still_changes_when_the_run_has_ended_is_not_sent():
    def during(mirror):
        raise Unsteady('model.ckpt-20.index')

    sender, clock = play(during)
    assert not sender.all_sent and sender.verdict.code == exit_codes.NOT_SENT
    assert 'model.ckpt-20.index' in sender.verdict.why and 60 <= clock.now < 120


def test_a_file_that_changes_a_few_times_after_the_end_is_sent():
    def during(mirror):
        mirror.unsteady = ['a.log'] if mirror.passes < 5 else []

    sender, clock = play(during)
    assert sender.all_sent and clock.now < 60
