"""Upstream's defects, mended in place, the same on every TensorFlow.

A mend acts after upstream's own checks, and raises nothing that upstream would not.

Each is mended when the module it is in has been imported; `FIXES` says what and why. One switch for
all: `compat.install(fixes=False)`, `compat run --no-fixes`, or ESTIMATOR_TRAINER_FIXES=0 in the
environment.
"""

import collections
import functools

from estimator_trainer.compat import hook

OWN_LOSS_METRIC = 'estimator_trainer/own_loss_metric'
_READY_POLL_SECS = 1
_UPSTREAM = 'tensorflow_estimator.python.estimator.'

_enabled = False
_mended = set()


class Fix(collections.namedtuple('Fix', 'module mend defects')):
    """module: its name. mend(module) does it. defects: what upstream does, one line each."""

    def __call__(self, module) -> None:
        if _enabled and self.module not in _mended:
            _mended.add(self.module)
            self.mend(module)


def apply() -> None:
    """Mends all of `FIXES` now or when the modules are imported; a second call changes nothing."""
    global _enabled
    _enabled = True
    for fix in FIXES:
        hook.after(fix.module, fix)


def withdraw() -> None:
    """Mends nothing from here on.

    Raises:
        RuntimeError: something is mended already.
    """
    global _enabled
    _enabled = False
    if any(module.startswith(_UPSTREAM) for module in _mended):
        raise RuntimeError(
            'Estimators are mended already: say install(fixes=False) before the program '
            'first touches tf.estimator, or set ESTIMATOR_TRAINER_FIXES=0.'
        )


def _mend_estimator(module) -> None:
    from tensorflow.python.data.ops import multi_device_iterator_ops
    from tensorflow.python.training import session_manager

    from estimator_trainer.compat.fixes import device_iterators, garbage, sync_training, training_end
    from estimator_trainer.sync import agreement

    _mend_coordinator(module)
    module.Estimator._train_with_estimator_spec_distributed = sync_training.train
    module.Estimator._actual_train_model_distributed = agreement.with_the_loss(
        module.Estimator._actual_train_model_distributed
    )
    device_iterators.mend(multi_device_iterator_ops)
    module._verify_and_create_loss_metric = keep_own_loss_metric(module._verify_and_create_loss_metric)
    garbage.collect_after(module.Estimator)
    training_end.begin_where_it_trains(module.Estimator)
    session_manager.SessionManager.__init__ = _poll_readiness(session_manager.SessionManager.__init__)


def _mend_coordinator(module) -> None:
    from estimator_trainer.compat.restore import estimator_training

    module.distribute_coordinator_training = estimator_training


def _mend_training(module) -> None:
    from estimator_trainer.compat.fixes import training_end

    _mend_coordinator(module)
    training_end.mend(module)


def _mend_strategy(module) -> None:
    """The strategy of an evaluator that the cluster does not list is one for this process alone."""
    extended = module.CollectiveAllReduceExtended
    original = extended._initialize_strategy

    @functools.wraps(original)
    def initialize(self, cluster_resolver, devices):
        listed = cluster_resolver.cluster_spec().as_dict()
        if cluster_resolver.task_type == 'evaluator' and 'evaluator' not in listed:
            self._initialize_local(cluster_resolver, devices=devices)
        else:
            original(self, cluster_resolver, devices)

    extended._initialize_strategy = initialize


def _mend_collectives(module) -> None:
    from estimator_trainer.compat.fixes import sparse_gradients

    sparse_gradients.mend(module)


def _mend_early_stopping(module) -> None:
    from estimator_trainer.compat.fixes import early_stopping

    module.make_early_stopping_hook = early_stopping.make_hook(module)


def _mend_exporter(module) -> None:
    from estimator_trainer.compat.fixes import best_exporter

    module.BestExporter.export = best_exporter.export


def _mend_base_head(module) -> None:
    module.create_estimator_spec_train_op = _report_mean_loss(module.create_estimator_spec_train_op)


FIXES = (
    Fix(
        _UPSTREAM + 'estimator',
        _mend_estimator,
        (
            'under MultiWorkerMirroredStrategy: no checkpoint at all when save_summary_steps=0, '
            'save_checkpoints_secs is "every 1000 steps", saving listeners are refused, '
            'model_dir/tmp_worker_N folders stay behind',
            'evaluate, predict and export leave their graphs to a garbage collector that seldom comes: '
            'memory grows with the number of evaluations',
            'a model_fn may not supply the evaluation metric "loss" itself, so that a short last batch counts '
            'as much as a full one',
            'with parameter servers a worker looks only every 30 s whether the chief is ready',
        ),
    ),
    Fix(_UPSTREAM + 'run_config', _mend_coordinator, ()),
    Fix(
        _UPSTREAM + 'training',
        _mend_training,
        (
            "train_and_evaluate under a strategy: a bare KeyError: 'evaluator' for an evaluator that the "
            'cluster does not list, TrainSpec.saving_listeners dropped, silence when nobody evaluates',
            'the evaluator of train_and_evaluate waits for ever after early stopping, and with max_steps=None',
        ),
    ),
    Fix('tensorflow.python.distribute.collective_all_reduce_strategy', _mend_strategy, ()),
    Fix(
        'tensorflow.python.distribute.cross_device_utils',
        _mend_collectives,
        (
            'under MultiWorkerMirroredStrategy sparse gradients (embeddings, linear feature columns) fail in the '
            'second step: "Shape mismatch in the collective instance"',
        ),
    ),
    Fix(
        _UPSTREAM + 'early_stopping',
        _mend_early_stopping,
        ('stop_if_*_hook with default arguments raises under any strategy',),
    ),
    Fix(_UPSTREAM + 'exporter', _mend_exporter, ('BestExporter exports a worse model after a restart',)),
    Fix(
        _UPSTREAM + 'head.base_head',
        _mend_base_head,
        ('canned Estimators under a strategy report the training loss times the number of replicas',),
    ),
)


def keep_own_loss_metric(original):
    """Lets a model_fn supply the evaluation metric `loss` itself.

    It says so by adding anything to the graph's collection OWN_LOSS_METRIC.
    """

    @functools.wraps(original)
    def verify(eval_metric_ops, loss, distribution=None):
        import tensorflow as tf

        if 'loss' in eval_metric_ops and tf.compat.v1.get_collection(OWN_LOSS_METRIC):
            return eval_metric_ops
        return original(eval_metric_ops, loss, distribution)

    return verify


def _poll_readiness(original):
    @functools.wraps(original)
    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        self._recovery_wait_secs = min(self._recovery_wait_secs, _READY_POLL_SECS)

    return init


def _report_mean_loss(original):
    @functools.wraps(original)
    def create(*args, **kwargs):
        import tensorflow as tf

        train_op = original(*args, **kwargs)
        mean = tf.losses.Reduction.SUM_OVER_BATCH_SIZE
        if kwargs.get('loss_reduction', mean) == mean and tf.distribute.get_strategy().num_replicas_in_sync > 1:
            # As V1 optimizers say it: the gradients are of a mean, so the loss to report is one, too.
            tf.compat.v1.get_default_graph()._is_loss_scaled_by_optimizer = True
        return train_op

    return create
