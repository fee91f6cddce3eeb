"""Hooks of the job, that stop, fetch, feed, evaluate, log and profile."""

import numpy as np
import tensorflow as tf

from tests.differential.building import dense, job_of
from tests.differential.case import case
from tests.differential.data import RECORD

v1 = tf.compat.v1


def job_with(*makes, net=dense):
    """makes: (loss, step) -> a hook."""
    return job_of(net, hooks=lambda loss, step: [make(loss, step) for make in makes])


@case(single='NanTensorHook', sample=True)
def nan_tensor_hook():
    return job_with(lambda loss, step: v1.train.NanTensorHook(loss))


@case(why='hook', single='StopAtStepHook', sample=True)
def stop_at_step_hook():
    return job_with(lambda loss, step: v1.train.StopAtStepHook(last_step=10))


@case(why='hook', single='', resumes=False)
def stop_after_steps_hook():
    return job_with(lambda loss, step: v1.train.StopAtStepHook(num_steps=13))


@case(single='Tells')
def subclass_of_stop_at_step_hook():
    class Tells(v1.train.StopAtStepHook):
        def after_run(self, run_context, run_values):
            RECORD.calls.append(int(run_context.session.run(v1.train.get_global_step())))
            return super().after_run(run_context, run_values)

    return job_with(lambda loss, step: Tells(last_step=21))


class Seen(tf.estimator.SessionRunHook):
    def __init__(self, loss, step):
        self._loss, self._step = loss, step

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        RECORD.calls.append((int(run_context.session.run(self._step)), float(run_values.results)))


@case(single='Seen', sample=True)
def hook_that_fetches():
    return job_with(Seen)


@case(single='Looks')
def hook_that_looks_afterwards():
    class Looks(tf.estimator.SessionRunHook):
        def after_run(self, run_context, run_values):
            RECORD.calls.append(int(run_context.session.run(v1.train.get_global_step())))

    return job_with(lambda loss, step: Looks())


@case(single='Enough', why='hook', resumes=False, sample=True)
def hook_that_requests_a_stop():
    class Enough(Seen):
        def after_run(self, run_context, run_values):
            super().after_run(run_context, run_values)
            if len(RECORD.calls) == 9:
                run_context.request_stop()

    return job_with(Enough)


@case(single='FeedFnHook', resumes=False, replicas=False)
def hook_that_feeds():
    def net(x):
        scale = v1.placeholder_with_default(1.0, [], name='scale')
        return dense(x * scale)

    def feed():
        return {'scale:0': np.float32(0.5 + 0.01 * len(RECORD.read))}

    return job_with(lambda loss, step: v1.train.FeedFnHook(feed), net=net)


@case(single='Evaluates', resumes=False, replicas=False)  # reads a batch of one replica alone
def hook_that_evaluates():
    """It reads a batch of its own every five steps."""

    class Evaluates(Seen):
        def after_run(self, run_context, run_values):
            super().after_run(run_context, run_values)
            if len(RECORD.calls) % 5 == 0:
                RECORD.calls.append(float(run_context.session.run(self._loss)))

    return job_with(Evaluates)


@case()
def hook_of_begin_and_end():
    class Quiet(tf.estimator.SessionRunHook):
        def begin(self):
            self._step = v1.train.get_global_step()

        def after_create_session(self, session, coord):
            RECORD.calls.append(('begin', int(session.run(self._step))))

        def end(self, session):
            RECORD.calls.append(('end', int(session.run(self._step))))

    return job_with(lambda loss, step: Quiet())


@case(resumes=False)
def final_ops_hook():
    class Keeps(v1.train.FinalOpsHook):
        def end(self, session):
            super().end(session)
            RECORD.calls.append(float(self.final_ops_values))

    return job_with(lambda loss, step: Keeps(v1.trainable_variables()[1][0]))


@case(single='LoggingTensorHook')
def logging_tensor_hook():
    def told(values):
        RECORD.calls.append({name: float(value) for name, value in values.items()})
        return ''

    return job_with(lambda loss, step: v1.train.LoggingTensorHook({'loss': loss}, every_n_iter=4, formatter=told))


@case(single='StepCounterHook')
def step_counter_hook():
    return job_with(lambda loss, step: v1.train.StepCounterHook(5, output_dir=RECORD.folder))


@case(single='SummarySaverHook', events=False)
def summary_saver_hook():
    return job_with(
        lambda loss, step: v1.train.SummarySaverHook(
            4, output_dir=f'{RECORD.folder}/own', summary_op=v1.summary.scalar('own', loss, collections=[])
        )
    )


@case(single='ProfilerHook')
def profiler_hook():
    return job_with(lambda loss, step: v1.train.ProfilerHook(save_steps=8, output_dir=f'{RECORD.folder}/profile'))


@case(single='GlobalStepWaiterHook')
def global_step_waiter_hook():
    return job_with(lambda loss, step: v1.train.GlobalStepWaiterHook(0))


@case(single='Feeds')
def hook_that_feeds_and_runs_metadata():
    class Feeds(Seen):
        def before_run(self, run_context):
            RECORD.calls.append(type(run_context.original_args.fetches).__name__)
            return tf.estimator.SessionRunArgs(
                self._loss, options=v1.RunOptions(report_tensor_allocations_upon_oom=True)
            )

    return job_with(Feeds)


@case()
def hook_that_reads_a_batch_to_begin_with():
    """As KMeans does, to choose its first clusters."""

    class Begins(tf.estimator.SessionRunHook):
        def __init__(self, loss, step):
            self._loss, self._step = loss, step

        def after_create_session(self, session, coord):
            if session.run(self._step) == 0:
                session.run(self._loss)

    return job_with(Begins)
