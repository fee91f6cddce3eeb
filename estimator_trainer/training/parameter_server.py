"""How a parameter server learns that training has ended: every worker tells it.

Each ps keeps a queue. A worker (the chief too, after its last checkpoint) puts one token into each
queue when it leaves: its number, and whether it has nothing more to train. The ps leaves when every
worker is done; if it was told to stop, when every worker has left. A worker that has failed puts
none; it may come back.
"""

import logging
import time

import tensorflow as tf

from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.training.sync import ps_meeting

_log = logging.getLogger('estimator_trainer')
_TELL_SECS = 20  # a ps that does not take a token for so long is gone
_POLL_SECS = 0.2
_ROOM = 1000  # tokens that wait; a worker that comes back puts another one


def serve(run_config, num_workers: int, watchdog) -> None:
    """Is a parameter server until every worker is done, or has left because all were told to stop."""
    server = tf.distribute.Server(
        run_config.cluster_spec, job_name='ps', task_index=run_config.task_id, config=run_config.session_config
    )
    done, left = set(), set()
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


def tell_left(addresses, worker: int, done: bool) -> None:
    """Tells every ps that this worker leaves.

    It is a session of its own, so that a worker which finds nothing left to train tells it as well.

    Raises:
        tf.errors.DeadlineExceededError: a ps does not answer.
    """
    for ps, address in enumerate(addresses):
        with tf.Graph().as_default():
            tell = _queue(ps).enqueue(2 * worker + done)
            with _session(f'grpc://{address}', ps, _TELL_SECS) as session:
                session.run(tell)


def wait_for_all(addresses, worker: int, workers: int, timeout_secs: int) -> None:
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


def end_meeting(worker: int, workers: int) -> ps_meeting.Meeting:
    """Where the workers of --sync_ps say that they have trained."""
    return ps_meeting.Meeting('trained', worker, workers, 1)


def _queue(ps: int):
    with tf.device(f'/job:ps/task:{ps}'):
        return tf.queue.FIFOQueue(_ROOM, tf.int32, shapes=[()], shared_name=f'left_queue_{ps}')


def _session(target: str, ps: int, timeout_secs: int = 0):
    # Without the filter the session would wait here until every worker is up.
    return tf.compat.v1.Session(
        target,
        config=tf.compat.v1.ConfigProto(
            device_filters=[f'/job:ps/task:{ps}'], operation_timeout_in_ms=timeout_secs * 1000
        ),
    )
