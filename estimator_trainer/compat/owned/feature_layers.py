"""Feature columns of an Estimator as Keras 3 layers, and what makes its logits from them.

Written for models that were migrated from canned Estimators (Linear, DNN, DNNLinearCombined, Baseline). The results are
those of `tf.feature_column`, bit for bit. Import this module before you open such a model:

    import feature_layers, estimator_optimizers, keras
    model = keras.models.load_model('model.keras')

A layer takes a dict of the features that its column reads (`layer.keys`), as `feature_columns` describes them, and
gives float32. `column` is JSON, as `feature_columns` describes it as well.

Needs TensorFlow and Keras 3.5 or later.
"""

from __future__ import annotations

import json
from typing import Any

import keras
import tensorflow as tf
from estimator_heads import ClassPredictions, HeadLoss, MultiLabelPredictions, RegressionPredictions, head_loss
from feature_columns import combined, make

__all__ = [
    'BaselineLogits',
    'ClassPredictions',
    'DenseColumn',
    'EmbeddingColumn',
    'HeadLoss',
    'LinearColumn',
    'MultiLabelPredictions',
    'RegressionPredictions',
    'SharedEmbeddingColumns',
    'SumAndBias',
    'head_loss',
]

_register = keras.saving.register_keras_serializable('feature_layers')


class _FeatureLayer(keras.layers.Layer):
    """A layer whose inputs are features: they keep their dtypes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.supports_jit = False  # strings and lookup tables cannot be compiled

    def compute_output_spec(self, features: dict[str, Any]) -> keras.KerasTensor:
        return keras.KerasTensor((None, self.width), dtype='float32')


class _ColumnLayer(_FeatureLayer):
    def __init__(self, column: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._column_json = json.dumps(column)
        self._column = make(column)

    @property
    def keys(self) -> list[str]:
        """Names of the features that the layer reads."""
        return list(self._column.keys)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), 'column': json.loads(self._column_json)}


@_register
class DenseColumn(_ColumnLayer):
    """A numeric, bucketized or indicator column, as `DenseFeatures` gives it: [batch, width]."""

    def __init__(self, column: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(column, **kwargs)
        if column['kind'] not in ('numeric', 'bucketized', 'indicator'):
            raise ValueError(f'A column of kind {column["kind"]!r} is not dense: put it into an indicator.')
        self.width = self._column.width if column['kind'] == 'numeric' else self._column.buckets

    def call(self, features: dict[str, Any]) -> tf.Tensor:
        if hasattr(self._column, 'one_hot'):
            return self._column.one_hot(features)
        return tf.reshape(self._column.dense(features), [-1, self.width])


@_register
class EmbeddingColumn(_ColumnLayer):
    """`embedding_column` of a categorical column: [batch, dimension].

    Args:
        column: a categorical column.
        dimension: columns of `embedding_weights`, the layer's variable [buckets, dimension].
        combiner: 'mean', 'sqrtn' or 'sum' of the rows of an example; one without values gives zeros.
        max_norm: the norm to which a row is cut; None for no bound.
        initializer: of new weights.
    """

    def __init__(
        self,
        column: dict[str, Any],
        dimension: int,
        combiner: str = 'mean',
        max_norm: float | None = None,
        initializer: Any = 'zeros',
        **kwargs: Any,
    ) -> None:
        super().__init__(column, **kwargs)
        self.width = self.dimension = dimension
        self.combiner, self.max_norm = combiner, max_norm
        self.initializer = keras.initializers.get(initializer)

    def build(self, features_shape: Any = None) -> None:
        self.embedding_weights = self.add_weight(
            shape=(self._column.buckets, self.dimension), initializer=self.initializer, name='embedding_weights'
        )

    def call(self, features: dict[str, Any]) -> tf.Tensor:
        return combined(self.embedding_weights.value, self._column.ids(features), self.combiner, self.max_norm)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            'dimension': self.dimension,
            'combiner': self.combiner,
            'max_norm': self.max_norm,
            'initializer': keras.initializers.serialize(self.initializer),
        }


@_register
class SharedEmbeddingColumns(_FeatureLayer):
    """`shared_embeddings`: several categorical columns that use the same rows.

    Gives a list with one tensor [batch, dimension] for each column, in the order of `columns`.

    Args:
        columns: categorical columns with equal numbers of buckets.
        dimension, combiner, max_norm, initializer: as in EmbeddingColumn.
    """

    def __init__(
        self,
        columns: list[dict[str, Any]],
        dimension: int,
        combiner: str = 'mean',
        max_norm: float | None = None,
        initializer: Any = 'zeros',
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._columns_json = json.dumps(columns)
        self._columns = [make(column) for column in columns]
        if len({column.buckets for column in self._columns}) != 1:
            raise ValueError('Columns that share embeddings need equal numbers of buckets.')
        self.dimension, self.combiner, self.max_norm = dimension, combiner, max_norm
        self.initializer = keras.initializers.get(initializer)

    @property
    def keys(self) -> list[str]:
        """Names of the features that the layer reads."""
        return list(dict.fromkeys(key for column in self._columns for key in column.keys))

    def build(self, features_shape: Any = None) -> None:
        self.embedding_weights = self.add_weight(
            shape=(self._columns[0].buckets, self.dimension), initializer=self.initializer, name='embedding_weights'
        )

    def call(self, features: dict[str, Any]) -> list[tf.Tensor]:
        weights = self.embedding_weights.value
        return [combined(weights, column.ids(features), self.combiner, self.max_norm) for column in self._columns]

    def compute_output_spec(self, features: dict[str, Any]) -> list[keras.KerasTensor]:
        return [keras.KerasTensor((None, self.dimension), dtype='float32') for _ in self._columns]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            'columns': json.loads(self._columns_json),
            'dimension': self.dimension,
            'combiner': self.combiner,
            'max_norm': self.max_norm,
            'initializer': keras.initializers.serialize(self.initializer),
        }


@_register
class LinearColumn(_ColumnLayer):
    """A column's part of a linear model's logits: [batch, units].

    For a numeric column this is the product with `column_weights`, the layer's variable [width, units]. For a
    categorical or bucketized column it is the `combiner` ('sum', 'mean', 'sqrtn') of the rows of `column_weights`
    [buckets, units] that the ids name. In a linear model an embedding or indicator column is its layer, followed by
    `keras.layers.Dense(units, use_bias=False)`.
    """

    def __init__(self, column: dict[str, Any], units: int = 1, combiner: str = 'sum', **kwargs: Any) -> None:
        super().__init__(column, **kwargs)
        if column['kind'] == 'indicator':
            raise ValueError('In a linear model an indicator is a DenseColumn, followed by a Dense layer without bias.')
        self.width = self.units = units
        self.combiner = combiner
        self._is_numeric = column['kind'] == 'numeric'

    def build(self, features_shape: Any = None) -> None:
        rows = self._column.width if self._is_numeric else self._column.buckets
        self.column_weights = self.add_weight(shape=(rows, self.units), initializer='zeros', name='column_weights')

    def call(self, features: dict[str, Any]) -> tf.Tensor:
        weights = self.column_weights.value
        if self._is_numeric:
            return tf.matmul(tf.reshape(self._column.dense(features), [-1, self._column.width]), weights)
        return combined(weights, self._column.ids(features), self.combiner)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), 'units': self.units, 'combiner': self.combiner}


@_register
class SumAndBias(keras.layers.Layer):
    """The sum of a list of tensors [batch, units], plus `bias` [units]: a linear model's logits.

    The tensors are added in the order in which they come. An Estimator adds those of its columns in the order of
    their names.
    """

    def build(self, shapes: list[tuple[int | None, ...]]) -> None:
        self.bias = self.add_weight(shape=(shapes[0][-1],), initializer='zeros', name='bias')

    def call(self, parts: list[tf.Tensor]) -> tf.Tensor:
        return tf.nn.bias_add(tf.add_n(list(parts)), self.bias.value)

    def compute_output_shape(self, shapes: list[tuple[int | None, ...]]) -> tuple[int | None, ...]:
        return shapes[0]


@_register
class BaselineLogits(_FeatureLayer):
    """A Baseline model's logits [batch, units]: `bias` [units] for every example, whatever its features are.

    Takes a dict of features, of which it reads the size of the batch.
    """

    def __init__(self, units: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width = self.units = units

    def build(self, features_shape: Any = None) -> None:
        self.bias = self.add_weight(shape=(self.units,), initializer='zeros', name='bias')

    def call(self, features: dict[str, Any]) -> tf.Tensor:
        batch = tf.shape(features[min(features)])[0]
        return tf.multiply(self.bias.value, tf.ones([batch, self.units]))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), 'units': self.units}
