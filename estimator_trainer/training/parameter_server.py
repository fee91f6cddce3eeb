"""How a parameter server learns that training has ended, and where the workers of --sync_ps meet.

Every worker tells each ps that it leaves. Each ps keeps a queue. A worker (the chief too, after its last checkpoint)
puts one token into each queue when it leaves: its number, and whether it has nothing more to train. The ps leaves when
every worker is done; if it was told to stop, when every worker has left. A worker that has failed puts none; it may
come back.

The workers of --sync_ps meet before the first step, and whenever they add up some numbers.
"""

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import tensorflow as tf

from estimator_trainer import exit_codes
from estimator_trainer.jobs.job_types import RunConfig
from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.training import agreed_start

_log = logging.getLogger('estimator_trainer')
_TELL_SECS = 20  # a ps that does not take a token for so long is gone
_POLL_SECS = 0.2
_MEET_POLL_SECS = 0.1
_ROOM = 1000  # tokens that wait; a worker that comes back puts another one
NEVER_STALE = (1 << 63) - 1  # nobody says anything twice before all have heard: nothing is ever too old
LeftOver: TypeAlias = tuple[tf.Tensor, tf.Tensor | tf.Operation]  # (how many, takes one of them)


def serve(run_config: RunConfig, num_workers: int, watchdog: watchdogs.Watchdog) -> None:
    """Is a parameter server until every worker is done, or has left because all were told to stop."""
    server = tf.distribute.Server(
        run_config.cluster_spec, job_name='ps', task_index=run_config.task_id, config=run_config.session_config
    )
    done, left = set[int](), set[int]()
    with tf.Graph().as_default():
        queue = _queue(run_config.task_id)
        size, token = queue.size(), queue.dequeue()
        with _session(server.target, run_config.task_id) as session:
            watchdog.enter(watchdogs.SERVING)
            while len(done) < num_workers:
                if watchdog.signum and len(done | left) == num_workers:
                    watchdog.obey(watchdog.signum)
                    return
                if not session.run(size):
                    time.sleep(_POLL_SECS)
                    continue
                worker, is_done = divmod(int(session.run(token)), 2)
                (done if is_done else left).add(worker)
                _log.info('parameter server: %d of %d workers done', len(done), num_workers)


def tell_left(addresses: Sequence[str], worker: int, done: bool) -> None:
    """Tells every ps that this worker leaves.

    It is a session of its own, so that a worker which finds nothing left to train tells it as well.

    Raises:
        tf.errors.DeadlineExceededError: a ps does not answer.
    """
    for ps, address in enumerate(addresses):
        with tf.Graph().as_default():
            tell = _queue(ps).enqueue(2 * worker + done)
            session = _session(f'grpc://{address}', ps, _TELL_SECS)
            try:
                session.run(tell)
            finally:
                threading.Thread(target=_close, args=(session,), daemon=True).start()


def _close(session: tf.compat.v1.Session) -> None:
    """A ps that has heard of all workers may have ended: then TensorFlow asks it again until the session's time is up,
    and the peers of this task would count it as lost meanwhile."""
    with contextlib.suppress(tf.errors.OpError):
        session.close()


def wait_for_all(addresses: Sequence[str], worker: int, workers: int, timeout_secs: int) -> None:
    """Waits until every worker of --sync_ps has trained. One that leaves early looks like a lost one.

    Raises:
        RuntimeError: they have not within `timeout_secs`: the data of this one ended before the others', or a hook
            of the job stopped it.
        tf.errors.OpError: a ps does not answer.
    """
    with tf.Graph().as_default():
        trained = end_meeting(worker, workers).add_up([1.0])
        with _session(f'grpc://{addresses[0]}', 0, timeout_secs) as session:
            try:
                session.run(trained)
            except tf.errors.DeadlineExceededError as error:
                raise RuntimeError(
                    f'--sync_ps: this worker has ended, and the others have not within {timeout_secs} s: its training '
                    'data must repeat for ever, and no hook may stop a worker alone'
                ) from error


def _queue(ps: int) -> tf.queue.FIFOQueue:
    with tf.device(f'/job:ps/task:{ps}'):
        return tf.queue.FIFOQueue(_ROOM, tf.int32, shapes=[()], shared_name=f'left_queue_{ps}')


def _session(target: str, ps: int, timeout_secs: int = 0) -> tf.compat.v1.Session:
    # Without the filter the session would wait here until every worker is up.
    return tf.compat.v1.Session(
        target,
        config=tf.compat.v1.ConfigProto(
            device_filters=[f'/job:ps/task:{ps}'], operation_timeout_in_ms=timeout_secs * 1000
        ),
    )


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

    def add_up(self, own: tf.Tensor, before_answer: Iterable[tf.Operation] = ()) -> tf.Tensor:
        """float32 [numbers]: the sums over all workers, each of which runs this once.

        Args:
            own: float32 [numbers].
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

    def left_overs(self) -> list[LeftOver]:
        """(how many, take them) of what workers have left there that were killed."""
        return [
            (self._said.num_accumulated(), self._said.take_grad(1)),
            *((queue.size(), queue.dequeue()) for queue in self._heard),
        ]


def end_meeting(worker: int, workers: int) -> Meeting:
    """Where the workers of --sync_ps say that they have trained."""
    return Meeting('trained', worker, workers, 1)


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

    def meet(self, session: tf.compat.v1.Session, clear: Callable[[], object]) -> None:
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

        def missing() -> list[str]:
            arrived, repeated = self._read(session, names['here']), self._read(session, names['repeated'])
            self._write(session, names['heard'], arrived)
            return [f'worker {other}' for other, said in zip(self._others, repeated) if said != own]

        self._wait(missing)
        clear()
        self._write(session, ['go'], [own])

    def _meet_chief(self, session: tf.compat.v1.Session, own: int) -> None:
        arrived, heard, repeated = (f'{kind}/{self._worker}' for kind in ('here', 'heard', 'repeated'))
        self._write(session, [arrived], [own])

        def missing() -> list[str]:
            back, chief, go = self._read(session, [heard, 'chief', 'go'])
            if back == own:  # a chief that lives has written its own number before
                self._write(session, [repeated], [chief])
            return [] if back == own and go == chief else ['the chief']

        self._wait(missing)

    def _wait(self, missing: Callable[[], list[str]]) -> None:
        deadline = time.monotonic() + self._timeout_secs
        while away := missing():
            if time.monotonic() >= deadline:
                raise agreed_start.StartRefused(
                    exit_codes.STALLED, f'--sync_ps: {", ".join(away)} has not come within {self._timeout_secs:g} s'
                )
            time.sleep(_MEET_POLL_SECS)

    def _read(self, session: tf.compat.v1.Session, names: Sequence[str]) -> list[int]:
        return list(session.run(self._values, {self._names: names}).tolist())

    def _write(self, session: tf.compat.v1.Session, names: Sequence[str], values: Sequence[int]) -> None:
        session.run(self._insert, {self._names: names, self._values: values})
