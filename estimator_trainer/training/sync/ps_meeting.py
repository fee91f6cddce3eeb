"""The workers of parameter servers meet there: before the first step, and whenever they add up some numbers."""

import random
import time

import tensorflow as tf

from estimator_trainer import exit_codes
from estimator_trainer.training.sync import agreed_start

_POLL_SECS = 0.1
NEVER_STALE = (1 << 63) - 1  # nobody says anything twice before all have heard: nothing is ever too old


class Meeting:
    """Where the workers meet, on one parameter server. Part of each worker's graph.

    The first worker adds up what all have said, and tells each of the others in a queue of its own. So nobody can
    hear, or go on, twice while another one does not.

    Args:
        name: of all meetings of a run different ones.
        worker, workers: the number of this worker, and how many there are.
        numbers: how many each of them says.
    """

    def __init__(self, name: str, worker: int, workers: int, numbers: int):
        self._worker, self._workers = worker, workers
        with tf.device('/job:ps/task:0'):
            self._said = tf.compat.v1.ConditionalAccumulator(
                tf.float32, [numbers], shared_name=f'sync_ps/{name}', reduction_type='SUM'
            )
            self._heard = [
                tf.queue.FIFOQueue(1, tf.float32, [[numbers]], shared_name=f'sync_ps/{name}/{other}')
                for other in range(1, workers)
            ]

    def add_up(self, own, before_answer=()):
        """float32 [numbers]: the sums over all workers, each of which runs this once.

        Args:
            mine: float32 [numbers].
            before_answer: operations that the first worker runs before the others hear.
        """
        say = self._said.apply_grad(own, NEVER_STALE)
        if self._worker:
            with tf.control_dependencies([say]):
                return self._heard[self._worker - 1].dequeue()
        with tf.control_dependencies([say, *before_answer]):
            total = self._said.take_grad(self._workers)
        with tf.control_dependencies([queue.enqueue(total) for queue in self._heard]):
            return tf.identity(total)

    def left_overs(self) -> list:
        """(how many, take them) of what workers have left there that were killed."""
        return [
            (self._said.num_accumulated(), self._said.take_grad(1)),
            *((queue.size(), queue.dequeue()) for queue in self._heard),
        ]


class Start:
    """Where all workers find each other before the first step. Part of each worker's graph.

    Parameter servers may have outlived earlier workers, and keep what these have said. So each worker draws a number.
    Who repeats it lives. Of each worker the chief knows so, and every worker of the chief, before the chief says `go`.

    Args:
        worker, workers: the number of this worker, 0 for the chief, and how many there are.
        timeout_secs: for the slowest of them.
    """

    def __init__(self, worker: int, workers: int, timeout_secs: float):
        self._worker, self._others, self._timeout_secs = worker, range(1, workers), timeout_secs
        raw, zero = tf.raw_ops, tf.constant(0, tf.int64)
        with tf.device('/job:ps/task:0'):
            self._names = tf.compat.v1.placeholder(tf.string, [None])
            self._values = tf.compat.v1.placeholder(tf.int64, [None])
            table = raw.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name='sync_ps/start')
            self._values = raw.LookupTableFindV2(table_handle=table, keys=self._names, default_value=zero)
            self._insert = raw.LookupTableInsertV2(table_handle=table, keys=self._names, values=self._values)

    def meet(self, session, clear) -> None:
        """Waits until all workers are here.

        Args:
            session: of this worker, with all variables ready.
            clear: () -> takes away what earlier workers have left. The chief calls it while nobody trains.

        Raises:
            agreed_start.StartRefused: a worker has not come within `timeout_secs`.
        """
        own = random.SystemRandom().getrandbits(62) + 1
        if self._worker:
            self._meet_chief(session, own)
            return
        names = {kind: [f'{kind}/{other}' for other in self._others] for kind in ('here', 'heard', 'repeated')}
        self._write(session, ['chief'], [own])

        def missing():
            arrived, repeated = self._read(session, names['here']), self._read(session, names['repeated'])
            self._write(session, names['heard'], arrived)
            return [f'worker {other}' for other, said in zip(self._others, repeated) if said != own]

        self._wait(missing)
        clear()
        self._write(session, ['go'], [own])

    def _meet_chief(self, session, own):
        arrived, heard, repeated = (f'{kind}/{self._worker}' for kind in ('here', 'heard', 'repeated'))
        self._write(session, [arrived], [own])

        def missing():
            back, chief, go = self._read(session, [heard, 'chief', 'go'])
            if back == own:  # a chief that lives has written its own number before
                self._write(session, [repeated], [chief])
            return [] if back == own and go == chief else ['the chief']

        self._wait(missing)

    def _wait(self, missing):
        deadline = time.monotonic() + self._timeout_secs
        while away := missing():
            if time.monotonic() >= deadline:
                raise agreed_start.StartRefused(
                    exit_codes.STALLED, f'--sync_ps: {", ".join(away)} has not come within {self._timeout_secs:g} s'
                )
            time.sleep(_POLL_SECS)

    def _read(self, session, names):
        return session.run(self._values, {self._names: names}).tolist()

    def _write(self, session, names, values):
        session.run(self._insert, {self._names: names, self._values: values})
