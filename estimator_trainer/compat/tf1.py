"""Lets `import tensorflow` mean TensorFlow 1 in the program's own modules.

    import estimator_trainer.compat.tf1
    import tensorflow as tf              # tf.logging, tf.app, tf.train.Optimizer, tf.contrib.layers...

    python -m estimator_trainer.compat run --tf1 train.py   # for a program that nobody wants to touch

TF 2's behaviour is off in the process. Libraries keep TF 2's names (`tf1_names.version_rule`). Importing this imports
no TensorFlow.
"""

import os

from estimator_trainer import compat
from estimator_trainer.compat import tf1_names
from estimator_trainer.compat.tf1_names import version_rule

compat.install()
tf1_names.install(version_rule.VersionRule.parsed(os.environ.get(compat.TF1_VARIABLE, '')))
