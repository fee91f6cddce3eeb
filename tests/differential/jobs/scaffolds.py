"""Scaffolds of the job's own."""

import tensorflow as tf

from tests.differential.building import adam, dense, job_of
from tests.differential.case import add, case
from tests.differential.data import RECORD

v1 = tf.compat.v1


def with_scaffold(name, make, **expected):
    def of_spec():
        return v1.train.Scaffold(**make())

    add(__name__, name, lambda: job_of(dense, train=adam, scaffold=of_spec), **expected)


def started():
    extra = v1.get_variable('extra', [], initializer=v1.ones_initializer(), trainable=False)
    assigned = extra.assign(5.0)
    return {'init_fn': lambda scaffold, session: session.run(assigned)}


def ready():
    return {
        'ready_op': tf.concat([v1.report_uninitialized_variables(), tf.constant([], tf.string)], 0),
        'ready_for_local_init_op': v1.report_uninitialized_variables(v1.global_variables()),
    }


def local():
    counter = v1.get_variable('local', [], collections=[v1.GraphKeys.LOCAL_VARIABLES], trainable=False)
    return {'local_init_op': tf.group(v1.local_variables_initializer(), v1.tables_initializer(), counter.initializer)}


def initialized():
    given = v1.placeholder(tf.float32, [])
    extra = v1.get_variable('extra', [], initializer=v1.zeros_initializer(), trainable=False)
    with tf.control_dependencies([v1.global_variables_initializer()]):
        return {'init_op': tf.group(extra.assign(given)), 'init_feed_dict': {given: 3.0}}


with_scaffold('scaffold_with_init_fn', started)
with_scaffold('scaffold_with_ready_op', ready, replicas=False)  # upstream's Estimator fails
with_scaffold('scaffold_with_local_init_op', local)
with_scaffold('scaffold_with_summary_op', lambda: {'summary_op': v1.summary.scalar('alone', tf.constant(2.0))})


@case()
def scaffold_with_merged_summary():
    def scaffold():
        return v1.train.Scaffold(summary_op=v1.summary.merge_all())

    return job_of(dense, train=adam, scaffold=scaffold)


@case()
def scaffold_with_copy():
    def scaffold():
        return v1.train.Scaffold(copy_from_scaffold=v1.train.Scaffold(local_init_op=v1.local_variables_initializer()))

    return job_of(dense, scaffold=scaffold)


@case(replicas=False)  # each replica adds a saver, and one is allowed
def scaffold_with_own_saver():
    """It is built after the optimizer's variables are there."""

    def train(loss, step):
        train_op = adam(loss, step)
        v1.add_to_collection(v1.GraphKeys.SAVERS, v1.train.Saver(max_to_keep=2, sharded=False))
        return train_op

    return job_of(dense, train=train)


@case(resumes=False)
def saver_of_version_1():
    """TensorFlow's first format of checkpoints."""

    def scaffold():
        return v1.train.Scaffold(saver=v1.train.Saver(write_version=v1.train.SaverDef.V1, defer_build=True))

    return job_of(dense, scaffold=scaffold)


@case(single='CheckpointSaverHook')
def hook_that_saves():
    """A CheckpointSaverHook of the job's, with a listener."""

    class Hears(v1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            RECORD.calls.append(('saved', int(global_step_value)))

    def hooks():
        return [v1.train.CheckpointSaverHook(RECORD.folder, save_steps=6, listeners=[Hears()])]

    return job_of(dense, training_chief_hooks=hooks)


@case(why='listener', single='CheckpointSaverHook', resumes=False)  # the hook counts anew
def listener_that_stops():
    class Stops(v1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            RECORD.calls.append(('saved', int(global_step_value)))
            return global_step_value >= 12

    def hooks():
        return [v1.train.CheckpointSaverHook(RECORD.folder, save_steps=6, listeners=[Stops()])]

    return job_of(dense, training_chief_hooks=hooks)
