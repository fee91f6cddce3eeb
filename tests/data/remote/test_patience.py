"""data.remote.patience: how often a store is asked, and what comes of it."""

import pytest

from estimator_trainer.data.remote import patience
from estimator_trainer.errors import DatasetError, DatasetUnavailable
from estimator_trainer.storage.store import Conflict, StoreRefused, StoreUnavailable
from tests import fakes


@pytest.fixture
def time():
    return fakes.Clock()


@pytest.fixture
def waits(time):
    return patience.Patience(time, time.sleep)


@pytest.fixture
def asked(waits, time):
    """A function (outcomes) -> result and seconds, of a store that answers so; the last answer is repeated."""

    def asked(outcomes, **given):
        began, answers = time.now, list(outcomes)

        def ask():
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        try:
            result = waits.request(ask, **given)
        except (DatasetError, Conflict) as error:
            result = error
        return result, time.now - began

    return asked


def test_an_answer_costs_no_time(asked):
    assert asked(['bytes']) == ('bytes', 0)


def test_a_store_that_is_away_for_a_minute_only_delays(asked):
    result, secs = asked([*[StoreUnavailable('no answer')] * 9, 'bytes'])
    assert result == 'bytes' and 30 < secs < 100


def test_a_store_that_stays_away_is_an_error_within_the_bound(asked):
    result, secs = asked([StoreUnavailable('s3://bucket cannot be read: no answer')])
    assert isinstance(result, DatasetUnavailable) and 'no answer' in str(result) and 'may work later' in str(result)
    assert 0.8 * patience.AWAY_SECS < secs <= patience.AWAY_SECS


def test_what_is_asked_next_is_asked_once_until_the_store_answers(asked):
    asked([StoreUnavailable('no answer')])
    result, secs = asked([StoreUnavailable('no answer'), 'bytes'])
    assert isinstance(result, DatasetUnavailable) and secs == 0
    assert asked(['bytes'])[0] == 'bytes'
    assert asked([StoreUnavailable('no answer'), 'bytes'])[0] == 'bytes'


def test_a_refusal_is_an_error_at_once_unless_it_may_pass(asked):
    assert isinstance(asked([StoreRefused('forbidden')])[0], DatasetError)
    assert asked([StoreRefused('forbidden')])[1] == 0
    assert asked([StoreRefused('forbidden'), StoreUnavailable('busy'), 'bytes'], refused_secs=60)[0] == 'bytes'
    result, secs = asked([StoreRefused('forbidden')], refused_secs=60)
    assert isinstance(result, DatasetError) and not isinstance(result, DatasetUnavailable) and 0 < secs <= 60


def test_one_refusal_after_an_outage_does_not_end_it(asked):
    outage = [StoreUnavailable('no answer')] * 9
    assert asked([*outage, StoreRefused('forbidden'), 'bytes'], refused_secs=60)[0] == 'bytes'


def test_what_is_no_matter_of_time_is_passed_on(asked):
    assert isinstance(asked([Conflict('changed')])[0], Conflict)


def test_nothing_is_asked_again_when_the_process_ends(asked, waits):
    waits.give_up()
    assert isinstance(asked([StoreUnavailable('no answer')])[0], DatasetUnavailable)


def test_many_waiters_give_one_warning(asked, caplog):
    for _ in range(5):
        asked([StoreUnavailable('no answer'), 'bytes'])
    assert len(caplog.records) == 1 and 'waits for data: no answer' in caplog.text
