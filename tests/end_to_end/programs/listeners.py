"""A plain Estimator program, as users write them, with a saving listener that ends the training.

Usage: TF_CONFIG=… listeners.py MODEL_DIR
"""

import sys

from estimator_trainer import compat

compat.install()
import tensorflow as tf  # noqa: E402
from spiral import input_fn, model_fn  # noqa: E402

from estimator_trainer.compat.patches import coordination_service  # noqa: E402

PARAMS = {'hidden': 8, 'learning_rate': 0.01, 'batch_size': 16, 'seed': 1, 'start_step': 0}


class StopAtThird(tf.estimator.CheckpointSaverListener):
    saves = 0

    def after_save(self, session, global_step_value):
        self.saves += 1
        print(f'listener: saved {global_step_value}', flush=True)
        return self.saves == 3


with coordination_service.heartbeats_put_off():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
config = tf.estimator.RunConfig(
    model_dir=sys.argv[1], train_distribute=strategy, save_checkpoints_steps=20, save_summary_steps=0
)
estimator = tf.estimator.Estimator(model_fn, config=config, params=PARAMS)
tf.estimator.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(
        lambda input_context=None: input_fn('train', PARAMS, input_context),
        max_steps=1000,
        saving_listeners=[StopAtThird()],
    ),
    tf.estimator.EvalSpec(lambda: input_fn('eval', PARAMS, None), steps=1),
)
print('left', flush=True)
