"""How a parameter server learns that training has ended: every worker tells it.

Each ps keeps a queue. A worker (the chief too, after its last checkpoint) puts one token into each
queue when it has done its last step, and the ps leaves when it has one from every worker. A worker
that has failed sends none: then whoever started the cluster stops it.
"""

import logging

import tensorflow as tf

_log = logging.getLogger('estimator_trainer')


class DoneHook(tf.estimator.SessionRunHook):
    """Tells every ps that this worker is done. Runs after the hook that saves the last checkpoint."""

    def __init__(self, num_ps: int, num_workers: int):
        self._num_ps, self._num_workers = num_ps, num_workers

    def begin(self):
        self._tell = [_queue(ps, self._num_workers).enqueue(1) for ps in range(self._num_ps)]

    def end(self, session):
        session.run(self._tell)


def serve(run_config, num_workers: int) -> None:
    """Is a parameter server until every worker is done."""
    server = tf.distribute.Server(
        run_config.cluster_spec, job_name='ps', task_index=run_config.task_id,
        config=run_config.session_config)
    with tf.Graph().as_default():
        token = _queue(run_config.task_id, num_workers).dequeue()
        # Without the filter the session would wait here until every worker is up.
        only_me = tf.compat.v1.ConfigProto(device_filters=[f'/job:ps/task:{run_config.task_id}'])
        with tf.compat.v1.Session(server.target, config=only_me) as session:
            for done in range(num_workers):
                session.run(token)
                _log.info('parameter server: %d of %d workers done', done + 1, num_workers)


def _queue(ps: int, num_workers: int):
    with tf.device(f'/job:ps/task:{ps}'):
        return tf.queue.FIFOQueue(num_workers, tf.int32, shapes=[()], shared_name=f'done_queue_{ps}')
