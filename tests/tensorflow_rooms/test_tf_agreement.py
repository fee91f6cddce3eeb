"""compat.agreement: tasks with clocks of their own meet at the same steps, and hear the same.

And compat.unlocked: a task that waits for another still runs its own threads.
"""

import json
import random
import sys
import threading

import launch
import pytest
import tensorflow as tf

from estimator_trainer.cluster import ports
from estimator_trainer.compat import agreement, unlocked
from estimator_trainer.compat.agreement import Agreement

v1 = tf.compat.v1


class Clock:
    """Steps of so many seconds each; or as many as there are, the last one for ever."""

    def __init__(self, *secs_per_step):
        self.now, self._secs = 0., list(secs_per_step)

    def __call__(self):
        return self.now

    def step(self):
        self.now += self._secs.pop(0) if len(self._secs) > 1 else self._secs[0]


def meetings(clock, steps):
    """At which of the steps one process alone looks."""
    alone = Agreement(1, True, clock)
    alone.meet(None, [False])
    met = []
    for step in range(1, steps + 1):
        clock.step()
        if alone.due():
            met.append(step)
            alone.meet(None, [False])
    return met


@pytest.mark.parametrize('secs, steps', [(.00101, 495), (.099, 5), (.3, 1), (10, 1), (1e-5, 1000), (0, 1000)])
def test_twice_a_second(secs, steps):
    met = meetings(Clock(secs), 5000)
    assert met == list(range(1, 5001, steps))


def test_after_a_pause_the_next_steps_are_looked_at_anew():
    met = meetings(Clock(*[.01] * 200, 600, .01), 400)
    after = next(step for step in met if step > 200)
    assert after <= 251 and after + 1 in met


@pytest.mark.parametrize('wishes', [[False, False], [True, False], [None, 3]])
def test_alone_one_agrees_with_oneself(wishes):
    assert Agreement(2, True).meet(None, wishes) == [bool(wish) for wish in wishes]


class Gang:
    """Tasks in threads, whose sessions add up what they are fed: an all-reduce."""

    def __init__(self, num_tasks, own_replicas=1):
        self._barrier = threading.Barrier(num_tasks)
        self._own_replicas, self._fed, self.problems = own_replicas, {}, []

    def session(self, number):
        gang = self

        class Session:
            def run(self, fetch, feed):
                value, = feed.values()
                gang._fed[number] = value
                gang._barrier.wait(10)
                total = [gang._own_replicas * sum(column) for column in zip(*gang._fed.values())]
                gang._barrier.wait(10)
                return total

        return Session()

    def task(self, number, clock, wants_at, steps):
        """(steps at which it met, step at which it was told of a wish)."""
        mine = Agreement(2, number == 0, clock)
        mine._alone, mine._own_replicas = False, self._own_replicas
        mine._mine, mine._all = 'placeholder', 'reduced'
        session, met = self.session(number), []
        mine.meet(session, [False, False])
        for step in range(1, steps + 1):
            clock.step()
            if mine.due():
                met.append(step)
                wants = wants_at is not None and step >= wants_at
                if mine.meet(session, [False, wants]) == [False, True]:
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
@pytest.mark.parametrize('rates', [(.01, .01), (.01, .0001), (.0001, 1.), (.5, .01)])
def test_two_tasks_meet_and_stop_at_the_same_steps(rates, who, own_replicas):
    results = Gang(2, own_replicas).run([
        (Clock(rate), 300 if number == who else None, 2000) for number, rate in enumerate(rates)])
    (met, told), (other_met, other_told) = results
    assert (met, told) == (other_met, other_told)
    assert (told is None) == (who is None)
    if who is not None:  # about half a second of the chief's later
        assert 300 <= told <= 300 + max(1, .5 / rates[0]) + 2


def test_rates_that_change_by_chance():
    chance = random.Random(1)
    clocks = [Clock(*[chance.choice([.0001, .003, .1, 2.]) for _ in range(500)]) for _ in range(3)]
    results = Gang(3).run([(clock, None, 500) for clock in clocks])
    assert results[0] == results[1] == results[2] and len(results[0][0]) > 10


def test_what_is_reduced_is_the_wish_of_all_replicas(monkeypatch):
    strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'])
    monkeypatch.setattr(type(strategy.extended), '_in_multi_worker_mode', lambda self: True)
    monkeypatch.setattr(agreement, '_EVERY_SECS', 5.05)
    clock = Clock(.1)
    with tf.Graph().as_default(), strategy.scope(), v1.Session() as session:
        mine = Agreement(2, True, clock)
        assert mine.meet(session, [False, True]) == [False, True]
        assert mine.meet(session, [False, False]) == [False, False]
        for _ in range(3):
            clock.step()
            mine.due()
        assert mine.meet(session, [1, 1]) == [True, True]
        due = [mine.due() for _ in range(50)]
        assert due == [False] * 49 + [True]  # the chief's number of steps, not the sum of both replicas'


_WAITING = """
import json, os, socket, sys, threading, time
import tensorflow as tf
from tensorflow.python.eager import context
from estimator_trainer.compat import unlocked
assert unlocked.install() and unlocked.install()
folder = sys.argv[1]
config = json.loads(os.environ['TF_CONFIG'])
def until(condition):
    while not condition():
        time.sleep(.01)
def said(word):
    return os.path.exists(os.path.join(folder, word))
def say(word):
    open(os.path.join(folder, word), 'w').close()
def listens():
    with socket.socket() as client:
        return client.connect_ex(('localhost', int(config['cluster']['worker'][0].split(':')[1]))) == 0
def thread_of_the_one_that_waits():
    until(listens)
    say('it connects')
    until(lambda: said('the other has connected'))
    say('it waits')
if config['task']['index'] == 0:
    threading.Thread(target=thread_of_the_one_that_waits).start()
else:
    until(lambda: said('it connects'))
strategy = tf.distribute.MultiWorkerMirroredStrategy()
if config['task']['index'] == 1:
    say('the other has connected')
    until(lambda: said('it waits'))
context.context().wait_at_barrier('all', 30000)
if config['task']['index'] == 1:
    until(lambda: said('that is all'))
    os._exit(0)
try:
    context.context().wait_at_barrier('nobody comes', 200)
except tf.errors.DeadlineExceededError as error:
    print('LATE', error.message, flush=True)
say('that is all')
os._exit(0)
"""


def test_threads_run_while_their_task_connects_and_waits(tmp_path):
    def task(index):
        return launch.start([sys.executable, '-c', _WAITING, tmp_path], TF_CONFIG=json.dumps({
            'cluster': {'worker': [f'localhost:{port}' for port in claimed.ports]},
            'task': {'type': 'worker', 'index': index}}))

    with ports.claim(2) as claimed, task(0) as one, task(1) as two:
        timer = threading.Timer(60, lambda: [process.kill() for process in (one, two)])
        timer.start()
        outputs = [process.communicate()[0] for process in (one, two)]
        timer.cancel()
    assert [one.returncode, two.returncode] == [0, 0], outputs
    assert 'LATE ' in outputs[0] and 'nobody comes' in outputs[0], outputs


def test_a_tensorflow_that_is_built_in_another_way_keeps_its_own(monkeypatch):
    before = unlocked.pywrap_tfe.TFE_WaitAtBarrier
    monkeypatch.setattr(unlocked, '_LIBRARY', 'no_such.so')
    assert not unlocked.install()
    assert unlocked.pywrap_tfe.TFE_WaitAtBarrier is before
