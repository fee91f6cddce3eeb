"""How an evaluator sees that a chief on another machine lives."""

import pytest

from estimator_trainer.storage.follow import SignOfLife

TRAINING = {'state': 'training', 'generation': 'g1', 'step': 5, 'beat': 70}


def lease(beat, gang='g1'):
    return {'token': f'of {gang}', 'beat': beat, 'gang': gang}


@pytest.fixture
def life():
    return SignOfLife(fresh_secs=15)


def test_it_changes_when_the_lease_does(life):
    life.hear(lease(1), TRAINING, now=0)
    first = life.content()
    assert first == {**TRAINING, 'beat': first['beat']}
    life.hear(lease(1), TRAINING, now=1)
    assert life.content() == first
    life.hear(lease(2), TRAINING, now=2)
    assert life.content() != first


@pytest.mark.parametrize('training', [{}, {**TRAINING, 'generation': 'g0'}, {**TRAINING, 'state': 'ended'}])
def test_what_an_earlier_chief_has_left_and_an_end_are_passed_on_as_they_are(life, training):
    for beat in range(3):
        life.hear(lease(beat), training, now=beat)
        life.wait()
        assert life.content() == training


def test_a_chief_is_not_lost_while_the_store_is_away(life):
    life.hear(lease(1), TRAINING, now=0)
    life.hear(lease(1), TRAINING, now=10)
    before = life.content()
    life.wait()
    assert life.content() != before


def test_a_chief_that_was_silent_before_the_store_was_away_may_be_lost(life):
    life.hear(lease(1), TRAINING, now=0)
    life.hear(lease(1), TRAINING, now=20)
    before = life.content()
    life.wait()
    assert life.content() == before
