"""Wide and deep learning on the flights of `estimator_trainer.data.flights`: will a flight be late?

The wide part is a linear model of single columns and of crosses of them. The deep part is a network over numbers and
embeddings.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from estimator_trainer.jobs import first_weights
from estimator_trainer.jobs.job import Job
from estimator_trainer.jobs.job_types import Estimator, EstimatorSpec, Mode, Params, RunConfig, Tensors

if TYPE_CHECKING:
    import tensorflow as tf

    from estimator_trainer.data.files import FileSpec

FeatureColumn = Any  # TensorFlow has no public class for it

PARAMS = {
    'hidden_units': '64,32',
    'linear_learning_rate': 0.1,  # of FTRL, for the wide part
    'linear_l1': 0.0,
    'linear_l2': 0.0,
    'deep_learning_rate': 0.002,  # of Adagrad, for the deep part
    'embedding_size': 8,
    'hash_buckets': 1000,  # of each hashed column; a crossed column has ten times as many
    'min_slice_bytes': 4096,  # with parameter servers, a larger table is cut into slices
}


def make_estimator(run_config: RunConfig, params: Params) -> Estimator:
    """Makes the canned Estimator of TensorFlow 1.

    The canned Estimator of TensorFlow 2 takes no `input_layer_partitioner`, which cuts the embedding tables into slices
    so that all parameter servers have some.
    """
    import tensorflow as tf

    wide, deep = columns(params)
    train = tf.compat.v1.train
    canned = tf.compat.v1.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide,
        linear_optimizer=lambda: train.FtrlOptimizer(
            params['linear_learning_rate'],
            l1_regularization_strength=params['linear_l1'],
            l2_regularization_strength=params['linear_l2'],
        ),
        dnn_feature_columns=deep,
        dnn_optimizer=lambda: train.AdagradOptimizer(params['deep_learning_rate']),
        dnn_hidden_units=_hidden_units(params),
        input_layer_partitioner=tf.compat.v1.min_max_variable_partitioner(
            max_partitions=run_config.num_ps_replicas, min_slice_size=params['min_slice_bytes']
        ),
        # The default, the sum, makes the gradient depend on the batch size.
        loss_reduction=tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
        config=run_config,
    )

    def model_fn(features: Tensors, labels: Tensors, mode: Mode, config: RunConfig) -> EstimatorSpec:
        with first_weights.of_seed(params['seed']):
            return canned.model_fn(features, labels, mode, config)

    return tf.estimator.Estimator(model_fn, config=run_config)


def columns(params: Params) -> tuple[list[FeatureColumn], list[FeatureColumn]]:
    """The feature columns of the wide and of the deep part."""
    import tensorflow as tf

    from estimator_trainer.data import flights

    fc, buckets = tf.feature_column, params['hash_buckets']
    hour = fc.categorical_column_with_identity('hour', 24)
    day_of_week = fc.categorical_column_with_identity('day_of_week', 7)
    month = fc.categorical_column_with_identity('month', 13)
    carrier = fc.categorical_column_with_vocabulary_list('carrier', flights.CARRIERS, num_oov_buckets=1)
    origin = fc.categorical_column_with_vocabulary_list('origin', flights.ORIGINS)
    dest, model, tailnum = (
        fc.categorical_column_with_hash_bucket(name, buckets) for name in ('dest', 'model', 'tailnum')
    )
    numbers = [fc.numeric_column(name, normalizer_fn=_scale(*facts)) for name, facts in flights.NUMBERS.items()]
    is_known = [fc.numeric_column(name, dtype=tf.int64) for name in flights.KNOWN.values()]
    # More flights are late in heat and in frost than between. A linear model cannot learn that from the number.
    temp = fc.bucketized_column(fc.numeric_column('temp'), [32, 45, 60, 75, 85])
    precip = fc.bucketized_column(fc.numeric_column('precip'), [0.005, 0.05])
    crosses = [
        fc.crossed_column(keys, 10 * buckets)
        for keys in (
            ['carrier', 'dest'],
            ['carrier', hour],
            ['origin', hour],
            [day_of_week, hour],
            [temp, hour],
            [temp, precip],
        )
    ]
    wide = [hour, day_of_week, month, carrier, origin, dest, temp, *crosses, *numbers, *is_known]
    deep = [
        *numbers,
        *is_known,
        *(fc.indicator_column(column) for column in (origin, day_of_week)),
        *(fc.embedding_column(column, params['embedding_size']) for column in (hour, carrier, dest, model, tailnum)),
    ]
    return wide, deep


def file_spec(params: Params) -> 'FileSpec':
    """Describes the files that `estimator_trainer.data.flights` writes."""
    import tensorflow as tf

    from estimator_trainer.data import flights
    from estimator_trainer.data.files import FileSpec

    wide, deep = columns(params)
    features = {
        **tf.feature_column.make_parse_example_spec([*wide, *deep]),
        flights.LABEL: tf.io.FixedLenFeature([], tf.int64),
        flights.KEY: tf.io.FixedLenFeature([], tf.string),
    }
    return FileSpec(features, label=flights.LABEL, key=flights.KEY)


def check(params: Params) -> None:
    """Raises ValueError for params that cannot work, before TensorFlow is imported."""
    try:
        units = _hidden_units(params)
    except ValueError:
        units = []
    if not units or min(units) < 1:
        raise ValueError(
            f'--param=hidden_units={params["hidden_units"]}: give the units of each hidden layer, such as 64,32.'
        )
    for name in ('embedding_size', 'hash_buckets', 'min_slice_bytes'):
        if params[name] < 1:
            raise ValueError(f'--param={name}={params[name]}: give 1 or more.')
    for name in ('linear_learning_rate', 'deep_learning_rate'):
        if not params[name] > 0:
            raise ValueError(f'--param={name}={params[name]}: give more than 0.')
    for name in ('linear_l1', 'linear_l2'):
        if not params[name] >= 0:
            raise ValueError(f'--param={name}={params[name]}: give 0 or more.')


def _hidden_units(params: Params) -> list[int]:
    return [int(units) for units in params['hidden_units'].split(',')]


def _scale(mean: float, deviation: float) -> 'Callable[[tf.Tensor], tf.Tensor]':
    return lambda values: (values - mean) / deviation


job = Job(
    make_estimator=make_estimator, file_spec=file_spec, params=PARAMS, check=check, best_metric='auc', best_mode='max'
)
