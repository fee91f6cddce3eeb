"""A job that saves its checkpoints itself: `--job=tests.chaos.own_saver:job`."""

import dataclasses

import numpy as np

from tests.chaos import job as plain
from tests.chaos.faults import Scene

HEARD = 'listener'  # an event of the scene: a listener of the job's has heard of a checkpoint
WHERE = ('training_hooks', 'training_chief_hooks', 'the chief alone', 'own saver')


def model_fn(features, labels, mode, params, config):
    import tensorflow as tf

    v1 = tf.compat.v1
    if mode != tf.estimator.ModeKeys.TRAIN:
        return plain.model_fn(_normalized(features, False), labels, mode, params, config)
    step = v1.train.get_global_step()
    features = _normalized(features, True)
    if params['spoil_at']:
        features = {'xy': features['xy'] + _spoiled(tf.equal(step, params['spoil_at'] - 1))}
    spec = plain.model_fn(features, labels, mode, params, config)
    how = {'scaffold': spec.scaffold}
    if params['where'] == 'own saver':
        own = v1.train.Saver(max_to_keep=3, save_relative_paths=True)
        spec, how = spec._replace(scaffold=v1.train.Scaffold(saver=own)), {'saver': own}
    hook = v1.train.CheckpointSaverHook(
        config.model_dir, save_steps=params['save_every'], listeners=[_listener()], **how
    )
    if params['where'] == 'training_chief_hooks':
        return spec._replace(training_chief_hooks=[hook])
    if params['where'] == 'the chief alone' and not config.is_chief:
        return spec
    return spec._replace(training_hooks=[*spec.training_hooks, hook])


def _normalized(features, training):
    """With averages that are read from all replicas when they are saved."""
    import tensorflow as tf

    return {'xy': tf.compat.v1.layers.batch_normalization(features['xy'], training=training, name='norm')}


def _spoiled(now):
    """A weight that is 0, and not a number after the step that has `now`. The loss of that step is finite."""
    import tensorflow as tf

    @tf.custom_gradient
    def spoil(weight):
        return tf.identity(weight), lambda upstream: tf.where(now, np.nan, 1.0) * tf.reduce_sum(upstream)

    return spoil(tf.compat.v1.get_variable('spoiled', [], initializer=tf.compat.v1.zeros_initializer()))


def _listener():
    import tensorflow as tf

    class Listener(tf.compat.v1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            scene = Scene.of_this_task()
            if scene:
                scene.happened(HEARD, int(global_step_value))

    return Listener()


job = dataclasses.replace(
    plain.job,
    model_fn=model_fn,
    serving_input_fn=None,
    params={
        **plain.job.params,
        'where': WHERE[0],  # the CheckpointSaverHook is
        'save_every': 30,  # steps
        'spoil_at': 0,  # after this step a weight is NaN; 0: never
    },
)
