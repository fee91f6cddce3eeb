"""Who trains in a store: the lease, by a clock that the test moves."""

import pytest

pytest.importorskip('obstore')

from estimator_trainer.storage import names  # noqa: E402
from estimator_trainer.storage.connection import keeps_conditions  # noqa: E402
from estimator_trainer.storage.lease import Lease, LeaseLost, LeaseTaken  # noqa: E402
from estimator_trainer.storage.share import Share  # noqa: E402
from estimator_trainer.storage.store import Conflict  # noqa: E402
from tests import fakes  # noqa: E402
from tests.storage.memory_store import MemoryStore  # noqa: E402


@pytest.fixture
def store():
    return MemoryStore()


def lease(store, time=None):
    time = time or fakes.Clock()
    return Lease(store, 30, Share(), clock=time, sleep=time.sleep)


def test_the_first_one_gets_it(store):
    assert lease(store).acquire(None) is None
    assert names.LEASE in store.list()


def test_a_lease_that_is_not_renewed_is_taken_over_after_its_span(store):
    first = lease(store)
    first.acquire(None)
    time = fakes.Clock()
    assert lease(store, time).acquire(None) == first.token
    assert 30 <= time.now < 32
    with pytest.raises(LeaseLost):
        first.renew()


def test_a_lease_is_trusted_for_no_longer_than_others_wait_for_it(store):
    time = fakes.Clock()
    first = Lease(store, 1800, Share(), clock=time, sleep=time.sleep)
    first.acquire(None)
    time.sleep(599)
    second = Lease(store, 1800, Share(), clock=time, sleep=time.sleep)
    second.acquire(None)  # the first one's network is away meanwhile
    assert time.now <= 599 + 620
    with pytest.raises(LeaseLost):
        first.check()
    assert first.span_secs == 600


def test_a_lease_that_is_renewed_is_not(store):
    first = lease(store)
    first.acquire(None)
    with pytest.raises(LeaseTaken):
        lease(store, fakes.Clock(during=first.renew)).acquire(None)
    first.renew()


def test_nobody_waits_after_a_release(store):
    first = lease(store)
    first.acquire(None)
    first.release()
    time = fakes.Clock()
    lease(store, time).acquire(None)
    assert time.now == 0


def test_nobody_waits_for_the_dead_trainer_of_the_same_scratch_folder(store):
    first = lease(store)
    first.acquire(None)
    time = fakes.Clock()
    assert lease(store, time).acquire(first.token) == first.token
    assert time.now == 0


def test_of_two_that_wait_one_gets_it(store):
    lease(store).acquire(None)
    second, third = lease(store), lease(store)
    with pytest.raises(LeaseTaken):
        lease(store, fakes.Clock(during=lambda: second.token and take_once(second))).acquire(None)
    with pytest.raises(LeaseLost):
        third._version = second._version
        second.renew()
        third.renew()


def take_once(taker):
    if taker._version is None:
        taker.acquire(None)


def test_a_lease_is_renewed_before_an_operation_when_its_span_is_over(store):
    time = fakes.Clock()
    first = lease(store, time)
    first.acquire(None)
    lease(store).acquire(None)
    first.check()  # by its own clock nobody can have taken it
    time.now = 31
    with pytest.raises(LeaseLost):
        first.check()


def test_a_store_that_ignores_conditions_is_found_out():
    class Careless(MemoryStore):
        def write(self, name, content, replaces):
            self.put(name, content)
            return super().write(name, content, replaces)  # equal content: no conflict

    assert keeps_conditions(MemoryStore())
    assert not keeps_conditions(Careless())


def test_a_write_whose_answer_was_lost_is_no_conflict(store):
    first = store.write('name', b'a', None)
    assert store.write('name', b'a', None) == first
    with pytest.raises(Conflict):
        store.write('name', b'b', None)


def test_a_renewal_whose_answer_did_not_come_loses_nothing(store):
    first = lease(store)
    first.acquire(None)
    known = first._version
    first.renew()
    first._version = known  # as if the answer had been lost, and the beat has gone on
    first.renew()
    assert first.lost is None


def test_nothing_renews_a_lease_that_was_released(store):
    first = lease(store)
    first.acquire(None)
    first.release()
    first.renew()
    time = fakes.Clock()
    lease(store, time).acquire(None)
    assert time.now == 0
