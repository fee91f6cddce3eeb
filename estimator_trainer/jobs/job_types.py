"""The types of what a Job takes, for editors and type checkers. Imports no TensorFlow.

Objects of Estimator and Keras are `Any`. For a type checker TensorFlow 2.16 has no tf.estimator, and its tf.keras is
Keras 3, while the trainer uses Keras 2.
"""

from typing import Any, Literal, TypeAlias

Mode: TypeAlias = Literal['train', 'eval', 'infer']  # the values of tf.estimator.ModeKeys
BestMode: TypeAlias = Literal['min', 'max']
Params: TypeAlias = dict[str, Any]

Estimator: TypeAlias = Any  # tf.estimator.Estimator
EstimatorSpec: TypeAlias = Any  # tf.estimator.EstimatorSpec
RunConfig: TypeAlias = Any  # tf.estimator.RunConfig
ServingInputReceiver: TypeAlias = Any  # tf.estimator.export.ServingInputReceiver
KerasLayer: TypeAlias = Any  # tf.keras.layers.Layer
KerasMetric: TypeAlias = Any  # tf.keras.metrics.Metric
KerasModel: TypeAlias = Any  # tf.keras.Model
KerasOptimizer: TypeAlias = Any  # tf.keras.optimizers.legacy.Optimizer
Tensors: TypeAlias = Any  # a tensor, or a nested structure of them
