"""Trains a job by a plain loop of `session.run`, and knows nothing of how the trainer trains.

It builds the graph as Estimator does, so that the seeds of operations are the same, and brings the job's hooks into a
MonitoredTrainingSession. The first weights follow from the seed by the same functions as the trainer's.
"""

import tensorflow as tf

from estimator_trainer.compat.patches import estimators, saver_hooks
from estimator_trainer.evaluation import exact_evaluation
from estimator_trainer.jobs import input_fns, run_params
from estimator_trainer.run_dir.run_folder import RunFolder
from tests.differential import rewriting
from tests.differential.data import RECORD
from tests.differential.settings import BATCH_SIZE, SAVE_STEPS, SEED, SUMMARY_STEPS

v1 = tf.compat.v1


def train(job, folder, max_steps, warm_start=False) -> None:
    """Trains up to this global step.

    Args:
        warm_start: whether `out/kernel` begins as in RECORD.earlier.
    """
    start = RunFolder(folder).named_step or 0
    params = run_params.RunParams({**job.params}, BATCH_SIZE, 1, 1, BATCH_SIZE, max_steps, None, SEED, start)
    run_config = tf.estimator.RunConfig(
        folder,
        tf_random_seed=SEED,
        save_checkpoints_steps=SAVE_STEPS,
        save_summary_steps=SUMMARY_STEPS,
        log_step_count_steps=None,
    )
    estimator = exact_evaluation.estimator_of(job, params, run_config)
    with tf.Graph().as_default():
        v1.set_random_seed(run_config.tf_random_seed)
        v1.train.create_global_step()
        stop = v1.train.StopAtStepHook(last_step=max_steps)
        stop.begin()  # upstream's Estimator reads the step before the job builds anything
        features, labels, hooks = _given(job, params, run_config)
        spec = estimators.call_model_fn(estimator, features, labels, tf.estimator.ModeKeys.TRAIN)
        if warm_start and not start:
            v1.train.warm_start(RECORD.earlier, 'out/kernel')
        _loop(spec, folder, estimator.config, [*hooks, stop])


def _given(job, params, run_config):
    """(features, labels, hooks) of the input_fn."""
    with tf.device('/cpu:0'):
        given = input_fns.by_name(job.input_fn)(tf.estimator.ModeKeys.TRAIN, params.as_dict(), None, run_config)
    hooks = []
    if isinstance(given, tf.data.Dataset):
        iterator = v1.data.make_initializable_iterator(given)
        hooks, given = [_Starts(iterator)], iterator.get_next()
    features, labels = given if isinstance(given, list | tuple) and len(given) == 2 else (given, None)
    return features, labels, hooks


def _loop(spec, folder, config, hooks) -> None:
    collected = v1.get_collection(v1.GraphKeys.SUMMARIES)
    if not any(summary.op.name == 'loss' for summary in collected):
        v1.summary.scalar('loss', spec.loss)
    v1.add_to_collection(v1.GraphKeys.LOSSES, spec.loss)
    hooks = [*hooks, v1.train.NanTensorHook(spec.loss), *spec.training_hooks]
    chiefs = list(spec.training_chief_hooks)
    if not (spec.scaffold.saver or v1.get_collection(v1.GraphKeys.SAVERS)):
        saver = v1.train.Saver(
            sharded=True, max_to_keep=config.keep_checkpoint_max, defer_build=True, save_relative_paths=True
        )
        v1.add_to_collection(v1.GraphKeys.SAVERS, saver)
    if not any(isinstance(hook, v1.train.CheckpointSaverHook) for hook in (*hooks, *chiefs)):
        chiefs.insert(0, _Saves(folder, spec.scaffold))
    chiefs.append(_Summaries(save_steps=SUMMARY_STEPS, output_dir=folder, scaffold=spec.scaffold))
    session = v1.train.MonitoredTrainingSession(
        config=rewriting.in_config(v1.ConfigProto(allow_soft_placement=True)),
        checkpoint_dir=folder,
        scaffold=spec.scaffold,
        hooks=hooks,
        chief_only_hooks=chiefs,
        save_checkpoint_secs=None,
        save_checkpoint_steps=None,
        save_summaries_steps=None,
        save_summaries_secs=None,
        log_step_count_steps=None,
    )
    with session:  # it takes the end of the data for an end
        while not session.should_stop():
            session.run([spec.train_op, spec.loss])


class _Starts(tf.estimator.SessionRunHook):
    def __init__(self, iterator):
        self._initializer = iterator.initializer

    def after_create_session(self, session, coord):
        session.run(self._initializer)


class _Saves(saver_hooks.CheckpointSaver):
    """Upstream's looks at the step of before or of after the run, by chance. This one reads it after the run."""

    def __init__(self, folder, scaffold):
        super().__init__(folder, scaffold, [], True, False)

    def begin(self):
        super().begin()
        self._step = v1.train.get_global_step()

    def after_create_session(self, session, coord):
        super().after_create_session(session, coord)
        self._saved = session.run(self._step)

    def before_run(self, run_context):
        return None

    def after_run(self, run_context, run_values):
        step = int(run_context.session.run(self._step))
        if step >= self._saved + SAVE_STEPS:
            self.save(run_context.session, step)
            self._saved = step


class _Summaries(saver_hooks.SummarySaver):
    """The same of summaries."""

    def __init__(self, **kwargs):
        super().__init__(lambda: self._known + 1, **kwargs)

    def begin(self):
        super().begin()
        self._step = v1.train.get_global_step()

    def after_run(self, run_context, run_values):
        super().after_run(run_context, run_values)
        self._known = int(run_context.session.run(self._step))
