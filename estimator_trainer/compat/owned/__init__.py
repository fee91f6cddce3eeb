"""Modules that a migrated canned Estimator takes along, beside `model.keras`.

They need `tensorflow` and Keras 3.5 or later, and nothing of estimator_trainer. `migrate` copies `FILES` together into
one folder; a program that has this folder in its path opens the model after `import feature_layers,
estimator_optimizers`. Nothing of estimator_trainer imports them: where Estimators run, Keras is Keras 2.
"""

import os

FOLDER = os.path.dirname(os.path.abspath(__file__))
FILES = (
    'feature_layers.py',  # layers of feature columns
    'feature_columns.py',  # what these layers compute from a column's JSON
    'estimator_heads.py',  # predictions and losses of heads
    'estimator_optimizers.py',  # update rules of tf.keras.optimizers.legacy
    'v1_optimizers.py',  # update rules of tf.compat.v1.train
    'optimizer_base.py',  # what all update rules share; one optimizer for each part of a model
    'traced_function.py',  # a normalizer_fn or a learning rate that was traced
)
