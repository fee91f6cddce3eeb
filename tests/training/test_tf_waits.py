"""training.waits: what is counted, and where it can be measured."""

import math

import pytest
import tensorflow as tf

from estimator_trainer.training import step_batches, waits

v1 = tf.compat.v1


def test_totals_and_what_came_since_the_last_report():
    for_peers = iter([1.0, 1.5, 4.0])
    waited = waits.Waits(lambda: next(for_peers))
    assert waited.since_last() == {'peer_wait_secs': 1.0}
    waited.for_input(math.nan)  # it is not measured
    assert waited.since_last() == {'peer_wait_secs': 0.5}
    waited.for_input(0.25)
    waited.for_input(0.5)
    assert waited.since_last() == {'input_wait_secs': 0.75, 'peer_wait_secs': 2.5}


def test_nothing_is_told_of_what_is_not_measured():
    waited = waits.Waits()
    assert waited.totals() == waited.since_last() == {}


def test_the_wait_for_each_batch():
    times, told = iter([0.0, 2.0, 5.0, 6.0, 9.0]), []
    assert list(waits.measured(iter('ab'), told.append, lambda: next(times))) == ['a', 'b']
    assert told == [2.0, 1.0]


@pytest.fixture
def reads():
    """A graph that reads a batch of a data set."""
    with tf.Graph().as_default() as graph:
        iterator = v1.data.make_one_shot_iterator(tf.data.Dataset.range(100))
        yield graph, iterator.get_next()


def test_a_step_that_reads(reads):
    graph, batch = reads
    secs = step_batches.measured_wait(step_batches.needed([batch.op]))
    waits.now_of_call(secs)
    with v1.Session(graph=graph) as session:
        found = [session.run([batch, secs, waits.of_call()]) for _ in range(3)]
    assert [number for number, *_ in found] == [0, 1, 2]
    assert all(0 < wait < 60 and of_call == [wait] for _, wait, of_call in found)


def test_a_graph_without_iterators():
    with tf.Graph().as_default() as graph:
        assert step_batches.measured_wait(graph.get_operations()) is None
        waits.now_of_call(None)
        assert waits.of_call() == []


def test_a_graph_that_may_not_read_a_clock(reads, monkeypatch):
    monkeypatch.setattr(step_batches.eager_context, 'is_deterministic', lambda: True)
    assert step_batches.measured_wait(reads[0].get_operations()) is None
