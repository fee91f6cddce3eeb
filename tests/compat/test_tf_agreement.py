"""compat.agreement: tasks with clocks of their own meet at the same steps, and hear the same."""

import random
import threading
import types

import pytest
import tensorflow as tf

from estimator_trainer.compat import agreement
from estimator_trainer.compat.agreement import EagerAgreement, Participant

v1 = tf.compat.v1


class Clock:
    """Steps of so many seconds each; or as many as there are, the last one for ever."""

    def __init__(self, *secs_per_step):
        self.now, self._secs = 0.0, list(secs_per_step)

    def __call__(self):
        return self.now

    def step(self):
        self.now += self._secs.pop(0) if len(self._secs) > 1 else self._secs[0]


class Given(EagerAgreement):
    """Adds up by `_sum`, without a strategy."""

    _own_replicas = 1

    def _build(self, strategy, numbers):
        pass


def meetings(clock, steps):
    """At which of the steps a task meets the others, as its clock has it."""
    mine = Given(1, True, clock)
    mine._sum = lambda values: values
    assert mine.agree(lambda: [False], 1) == [False]
    met = []
    for step in range(1, steps + 1):
        clock.step()
        if mine.agree(lambda: [False], 1):
            met.append(step)
    return met


@pytest.mark.parametrize('secs, steps', [(0.00101, 10), (0.099, 5), (0.3, 1), (10, 1), (1e-5, 10), (0, 10)])
def test_twice_a_second_and_in_every_tenth_step(secs, steps):
    met = meetings(Clock(secs), 500)
    assert met == list(range(1, 501, steps))


def test_steps_that_become_slow():
    met = meetings(Clock(*[0.001] * 60, 1), 100)
    after = next(step for step in met if step > 60)
    assert after <= 70
    assert met[-5:] == [96, 97, 98, 99, 100]


class Gang:
    """Tasks in threads that add up what they give: an all-reduce."""

    def __init__(self, num_tasks, own_replicas=1):
        self._barrier = threading.Barrier(num_tasks)
        self._own_replicas, self._fed, self.problems = own_replicas, {}, []

    def sum(self, number):
        def add_up(mine):
            self._fed[number] = mine
            self._barrier.wait(10)
            total = [self._own_replicas * sum(column) for column in zip(*self._fed.values())]
            self._barrier.wait(10)
            return total

        return add_up

    def task(self, number, clock, wants_at, steps):
        """(steps at which it met, step at which it was told of a wish)."""
        mine = Given(2, number == 0, clock)
        mine._own_replicas, mine._sum = self._own_replicas, self.sum(number)
        met = []
        mine.agree(lambda: [False, False], 1)
        for step in range(1, steps + 1):
            clock.step()
            agreed = mine.agree(lambda: [False, wants_at is not None and step >= wants_at], 1)
            if agreed is not None:
                met.append(step)
            if agreed == [False, True]:
                return met, step
        return met, None

    def run(self, tasks):
        results = [None] * len(tasks)

        def work(number):
            try:
                results[number] = self.task(number, *tasks[number])
            except Exception as error:
                self.problems.append(error)
                self._barrier.abort()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(tasks))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not self.problems
        return results


@pytest.mark.parametrize('own_replicas', [1, 3])
@pytest.mark.parametrize('who', [None, 0, 1])
@pytest.mark.parametrize('rates', [(0.01, 0.01), (0.01, 0.0001), (0.0001, 1.0), (0.5, 0.01)])
def test_two_tasks_meet_and_stop_at_the_same_steps(rates, who, own_replicas):
    results = Gang(2, own_replicas).run(
        [(Clock(rate), 300 if number == who else None, 2000) for number, rate in enumerate(rates)]
    )
    (met, told), (other_met, other_told) = results
    assert (met, told) == (other_met, other_told)
    assert (told is None) == (who is None)
    if who is not None:  # ten steps later at most
        assert 300 <= told <= 310


def test_rates_that_change_by_chance():
    chance = random.Random(1)
    clocks = [Clock(*[chance.choice([0.0001, 0.003, 0.1, 2.0]) for _ in range(500)]) for _ in range(3)]
    results = Gang(3).run([(clock, None, 500) for clock in clocks])
    assert results[0] == results[1] == results[2] and len(results[0][0]) > 10


@pytest.fixture
def as_workers(two, monkeypatch):
    """A strategy with two replicas, which is taken for one of several tasks."""
    monkeypatch.setattr(agreement, 'has_several_tasks', lambda strategy: True)
    return two


def test_what_is_reduced_is_the_wish_of_all_replicas(as_workers):
    clock = Clock(0.09)
    with as_workers.scope():
        mine = EagerAgreement(2, True, clock)
    assert mine.agree(lambda: [False, True], 1) == [False, True]
    assert mine.agree(lambda: [False, False], 1) == [False, False]
    for _ in range(9):  # no time has passed between these two
        clock.step()
        assert mine.agree(lambda: [1, 1], 1) is None
    clock.step()
    assert mine.agree(lambda: [1, 1], 1) == [True, True]
    agreed = [mine.agree(lambda: [1, 0], 1) for _ in range(5)]
    assert agreed == [None] * 4 + [[True, False]]  # the chief's number of steps, not the sum of both replicas'


class Wishing(v1.train.SessionRunHook):
    """Wishes from a step on, and keeps what it hears."""

    def __init__(self, *from_steps):
        self._from_steps, self.asked, self.heard, self.apart = from_steps, 0, [], []

    def _wishes(self):
        self.asked += 1
        return [len(self.heard) >= step for step in self._from_steps]

    def begin(self):
        self._participant = agreement.join(self._wishes, len(self._from_steps))

    def after_create_session(self, session, coord):
        self.apart = self._participant.meet(session, [step == 0 for step in self._from_steps])

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(*self._participant.before_run())

    def after_run(self, run_context, run_values):
        self.heard.append(self._participant.after_run(run_values.results))


def model_fn(features, labels, mode):
    return tf.estimator.EstimatorSpec(
        mode, loss=tf.cast(features, tf.float32) / 8, train_op=v1.train.get_global_step().assign_add(1)
    )


def train(folder, strategy, hooks):
    """The loss that was reported in each of five steps."""
    losses = []

    class Losses(v1.train.SessionRunHook):
        def before_run(self, run_context):
            return v1.train.SessionRunArgs(v1.get_collection(v1.GraphKeys.LOSSES)[-1])

        def after_run(self, run_context, run_values):
            losses.append(float(run_values.results))

    config = tf.estimator.RunConfig(
        str(folder), train_distribute=strategy, log_step_count_steps=None, save_summary_steps=0
    )
    tf.estimator.Estimator(model_fn, config=config).train(
        lambda: tf.data.Dataset.range(20), max_steps=5, hooks=[*hooks, Losses()]
    )
    return losses


def test_the_hooks_of_an_estimator_wish_together(tmp_path, as_workers):
    one, other = Wishing(2, 99), Wishing(0)
    losses = train(tmp_path, as_workers, [one, other])
    assert losses == [(4 * step + 1) / 8 for step in range(5)]  # two examples in each step, 0 and 1 in the first
    assert one.heard == [[False, False]] * 2 + [[True, False]] * 3
    assert other.heard == [[True]] * 5
    assert (one.apart, other.apart) == ([False, False], [True])
    assert one.asked == other.asked == 5


def test_the_wishes_travel_with_the_loss_and_change_no_loss(tmp_path, as_workers, monkeypatch):
    reduced = []
    reduce = type(as_workers).reduce

    def keep(self, reduce_op, value, axis):
        total = reduce(self, reduce_op, value, axis)
        reduced.append(total)
        return total

    monkeypatch.setattr(type(as_workers), 'reduce', keep)
    with_wishes = train(tmp_path / 'with', as_workers, [Wishing(3)])
    assert [tensor.shape.as_list() for tensor in reduced] == [[17], [16]]  # the second is for between steps
    assert 'reduce' not in vars(as_workers)
    monkeypatch.setattr(agreement, 'has_several_tasks', lambda strategy: False)
    assert train(tmp_path / 'without', as_workers, []) == with_wishes


def test_without_a_loss_to_travel_with_they_travel_alone(as_workers):
    hook = Wishing(2)
    with tf.Graph().as_default(), as_workers.scope():
        hook.begin()
        with v1.Session() as session:
            assert hook._participant.meet(session, [True]) == [True]
            heard = []
            for _ in range(3):
                fetches, feeds = hook._participant.before_run()
                heard.append(hook._participant.after_run(session.run(fetches, feeds)))
                hook.heard.append(None)
    assert heard == [[False], [False], [True]]


def participant():
    return Participant(types.SimpleNamespace(sums=[1.0, 4.0, 8.0]), list, slice(1, 3))


def test_with_parameter_servers_there_is_no_strategy():
    assert participant().numbers() == [4, 8]


def test_each_replica_of_a_task_adds_what_the_task_says():
    with tf.distribute.MirroredStrategy(['CPU:0']).scope():
        assert participant().numbers() == [4, 8]
