"""compat: tf.estimator on every TensorFlow."""

import importlib
import os
import sys

import pytest
import tensorflow as tf

from estimator_trainer import compat

RESTORED = not compat.has_estimators()


def test_every_way_to_the_estimator():
    import tensorflow.compat.v1 as v1
    import tensorflow.compat.v2 as v2

    assert tf.estimator.Estimator is v2.estimator.Estimator
    assert v1.estimator.Estimator is tf.compat.v1.estimator.Estimator
    assert v1.estimator.Estimator is not tf.estimator.Estimator  # V1 and V2
    assert importlib.import_module('tensorflow.estimator').Estimator is tf.estimator.Estimator
    assert importlib.import_module('tensorflow.compat.v1.estimator').Estimator is v1.estimator.Estimator
    from tensorflow import estimator

    assert estimator.RunConfig is tf.estimator.RunConfig
    for name in ('DNNClassifier', 'TrainSpec', 'ModeKeys', 'FinalExporter', 'train_and_evaluate'):
        assert hasattr(tf.estimator, name)
    assert callable(tf.estimator.export.ServingInputReceiver)


@pytest.mark.parametrize(
    'part, name',
    [
        ('estimator', 'Estimator'),
        ('estimator', '_get_loss_reduce_op_for_reporting'),
        ('run_config', 'RunConfig'),
        ('training', 'train_and_evaluate'),
        ('exporter', 'BestExporter'),
        ('estimator_lib', 'EstimatorSpec'),
        ('keras', 'model_to_estimator'),
        ('canned.head', '_Head'),
        ('canned.metric_keys', 'MetricKeys'),
        ('export.export', 'ServingInputReceiver'),
        ('inputs.numpy_io', 'numpy_input_fn'),
        ('inputs.queues.feeding_functions', '_enqueue_data'),
    ],
)
def test_names_under_tensorflow_python(part, name):
    real = 'keras_lib' if part == 'keras' else part
    assert getattr(importlib.import_module(f'tensorflow.python.estimator.{part}'), name) is getattr(
        importlib.import_module(f'tensorflow_estimator.python.estimator.{real}'), name
    )


def test_names_of_the_api():
    from tensorflow.python.util import tf_export

    assert 'estimator.Estimator' in tf_export.get_v1_names(tf.compat.v1.estimator.Estimator)
    assert tf_export.get_v2_names(tf.estimator.Estimator) == ['estimator.Estimator']
    assert tf_export.get_v2_names(tf.nn.relu) == ['nn.relu']


def test_an_unknown_coordinator_mode_is_ignored():
    from tensorflow.python.distribute import estimator_training

    config = tf.estimator.RunConfig()
    config._distribute_coordinator_mode = 'no such mode'
    config._cluster_spec = tf.train.ClusterSpec({'chief': ['localhost:1']})
    assert not estimator_training.should_run_distribute_coordinator(config)


def test_installed_twice_is_harmless():
    from tensorflow.python.training import session_manager
    from tensorflow_estimator.python.estimator import estimator as estimator_lib

    def state():
        return (
            tf.estimator.Estimator,
            tf.compat.v1.estimator.Estimator,
            list(sys.meta_path),
            list(tf.__path__),
            session_manager.SessionManager.__init__,
            estimator_lib._verify_and_create_loss_metric,
            estimator_lib.Estimator.evaluate,
            estimator_lib.Estimator._train_with_estimator_spec_distributed,
        )

    before = state()
    compat.install()
    assert state() == before


def test_run_config_with_a_strategy(monkeypatch):
    monkeypatch.delenv('TF_CONFIG', raising=False)
    train, evaluate = (
        tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'], tf.distribute.ReductionToOneDevice()) for _ in range(2)
    )
    config = tf.estimator.RunConfig(train_distribute=train, eval_distribute=evaluate)
    assert (config.train_distribute, config.eval_distribute) == (train, evaluate)
    assert config.is_chief and config.task_type == 'worker' and config.num_worker_replicas == 1


def test_estimators_get_keras_2(monkeypatch):
    assert tf.keras.Model.__module__.startswith('tf_keras' if RESTORED else 'keras')
    monkeypatch.setenv('TF_USE_LEGACY_KERAS', 'x')
    compat.prepare()
    assert os.environ.get('TF_USE_LEGACY_KERAS') == ('1' if RESTORED else None)


def test_versions():
    assert compat.tensorflow_version() == tuple(int(x) for x in tf.__version__.split('.')[:2])
    found = compat.versions()
    assert found['tensorflow'] == tf.__version__.replace('-rc', 'rc').replace('-dev', '.dev')
    assert found['tensorflow-estimator'].startswith('2.15')


def test_tpu_estimator_without_a_tpu(tmp_path):
    v1 = tf.compat.v1

    def model_fn(features, labels, mode, params):
        loss = v1.losses.mean_squared_error(labels, v1.layers.dense(features['x'], 1))
        return v1.estimator.tpu.TPUEstimatorSpec(
            mode, loss=loss, train_op=v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        )

    def input_fn(params):
        data = tf.data.Dataset.from_tensors(({'x': tf.ones([2])}, tf.ones([1]))).repeat()
        return data.batch(params['batch_size'], drop_remainder=True)

    estimator = v1.estimator.tpu.TPUEstimator(
        model_fn,
        use_tpu=False,
        train_batch_size=8,
        eval_batch_size=8,
        config=v1.estimator.tpu.RunConfig(model_dir=str(tmp_path)),
    )
    estimator.train(input_fn, max_steps=3)
    assert estimator.evaluate(input_fn, steps=1)['global_step'] == 3


@pytest.mark.skipif(not RESTORED, reason='TensorFlow has these modules itself up to 2.15')
class TestRestored:
    @pytest.mark.parametrize(
        'module, name',
        [
            ('tpu_embedding', 'TPUEmbedding'),
            ('tpu_embedding_gradient', 'anything'),
            ('session_support', 'WatchdogHook'),
        ],
    )
    def test_tpu_stand_ins_refuse(self, module, name):
        stand_in = getattr(importlib.import_module(f'tensorflow.python.tpu.{module}'), name)
        with pytest.raises(NotImplementedError, match=f'{module}.{name} needs a TPU.*2.16'):
            stand_in(1, option=2)

    def test_tpu_estimator_refuses_a_tpu(self):
        tpu = tf.compat.v1.estimator.tpu
        with pytest.raises(NotImplementedError, match='removed what TPUEstimator needs.*use_tpu=False'):
            tpu.TPUEstimator(lambda features: None, config=tpu.RunConfig(), train_batch_size=8)
        assert importlib.import_module('tensorflow.python.tpu.tpu_estimator').TPUEstimator is tpu.TPUEstimator

    def test_other_missing_modules_stay_missing(self):
        for name in ('tensorflow.python.tpu.no_such_module', 'tensorflow.python.estimator.no_such_module'):
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module(name)

    def test_estimator_training_is_ours(self):
        module = importlib.import_module('tensorflow.python.distribute.estimator_training')
        assert 'estimator_trainer' in module.__file__
