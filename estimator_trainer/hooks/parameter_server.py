"""How a parameter server learns that training has ended: every worker tells it.

Each ps keeps a queue. A worker (the chief too, after its last checkpoint) puts one token into each
queue when it has nothing more to train, and the ps leaves when it has one from every worker. A
worker that has failed sends none: then whoever started the cluster stops it.
"""

import logging

import tensorflow as tf

_log = logging.getLogger('estimator_trainer')
_TELL_SECS = 120  # a ps that does not take a token for so long is gone


def serve(run_config, num_workers: int) -> None:
    """Is a parameter server until every worker is done."""
    server = tf.distribute.Server(
        run_config.cluster_spec, job_name='ps', task_index=run_config.task_id,
        config=run_config.session_config)
    with tf.Graph().as_default():
        token = _queue(run_config.task_id, num_workers).dequeue()
        with _session(server.target, run_config.task_id) as session:
            for done in range(num_workers):
                session.run(token)
                _log.info('parameter server: %d of %d workers done', done + 1, num_workers)


def tell_done(addresses, num_workers: int) -> None:
    """Tells every ps that this worker is done.

    It is a session of its own, so that a worker which finds nothing left to train tells it as well.

    Raises:
        tf.errors.DeadlineExceededError: a ps does not answer.
    """
    for ps, address in enumerate(addresses):
        with tf.Graph().as_default():
            tell = _queue(ps, num_workers).enqueue(1)
            with _session(f'grpc://{address}', ps, _TELL_SECS) as session:
                session.run(tell)


def _queue(ps: int, num_workers: int):
    with tf.device(f'/job:ps/task:{ps}'):
        return tf.queue.FIFOQueue(num_workers, tf.int32, shapes=[()], shared_name=f'done_queue_{ps}')


def _session(target: str, ps: int, timeout_secs: int = 0):
    # Without the filter the session would wait here until every worker is up.
    return tf.compat.v1.Session(target, config=tf.compat.v1.ConfigProto(
        device_filters=[f'/job:ps/task:{ps}'], operation_timeout_in_ms=timeout_secs * 1000))
