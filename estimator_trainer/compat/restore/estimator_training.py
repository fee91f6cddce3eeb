"""What Estimator asks of `tensorflow.python.distribute.estimator_training`, which 2.16 removed.

Touches: distribute_coordinator and its context in tensorflow.python.distribute, private fields of RunConfig and
  Estimator
Without it: Estimators cannot be imported, or do not train in a cluster with a strategy
For: every program

Estimator calls five functions here: `init_run_config` when a RunConfig names a strategy,
`should_run_distribute_coordinator` and `train_and_evaluate` from `tf.estimator.train_and_evaluate`,
and `estimator_train` and `estimator_evaluate` when `train` or `evaluate` is called in a cluster.

Which task does what, under a strategy and TF_CONFIG:

- chief and workers train, each in its own process, under TensorFlow's distribute coordinator, which
  starts the task's server, configures the strategy and gives it its worker context;
- the evaluator talks to no other task. It evaluates checkpoints until one reaches `max_steps`,
  whether or not `cluster` lists it;
- a ps serves.

Saving listeners of the TrainSpec are honoured on the chief.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensorflow.python.distribute import distribute_coordinator as coordinator
from tensorflow.python.distribute import distribute_coordinator_context as coordinator_context
from tensorflow.python.platform import tf_logging as logging
from tensorflow.python.training import server_lib

from estimator_trainer.compat.patches import training_end

if TYPE_CHECKING:
    import tensorflow as tf

_CHIEF, _WORKER, _PS, _EVALUATOR = 'chief', 'worker', 'ps', 'evaluator'
_MODE = coordinator.CoordinatorMode


def init_run_config(config: tf.estimator.RunConfig, tf_config: dict[str, Any]) -> None:
    """Fills a RunConfig that has a strategy, and decides who drives it.

    The coordinator drives a cluster whose RunConfig has a training strategy. Everything else (one
    process, a cluster with the old `master`, an evaluation strategy alone) is Estimator's own.

    Raises:
        ValueError: one setting is given in two places.
    """
    both = config._experimental_distribute
    for name in ('train_distribute', 'eval_distribute'):
        value = both and getattr(both, name)
        if value and getattr(config, f'_{name}'):
            raise ValueError(f'{name} is set both in RunConfig and in experimental_distribute.')
        if value:
            setattr(config, f'_{name}', value)

    cluster = server_lib.ClusterSpec(tf_config.get('cluster', {}))
    remote = both and both.remote_cluster
    config._init_distributed_setting_from_environment_var({})
    if config._train_distribute and remote:
        if cluster:
            raise ValueError('The cluster is set both in TF_CONFIG and in remote_cluster.')
        config._distribute_coordinator_mode = _MODE.STANDALONE_CLIENT
        config._cluster_spec = remote
    elif cluster and config._train_distribute and 'master' not in cluster.jobs:
        config._distribute_coordinator_mode = _MODE.INDEPENDENT_WORKER
        config._cluster_spec = cluster
    else:
        config._distribute_coordinator_mode = None
        config._init_distributed_setting_from_environment_var(tf_config)
        config._maybe_overwrite_session_config_for_distributed_training()


def should_run_distribute_coordinator(config: tf.estimator.RunConfig) -> bool:
    """Whether `train_and_evaluate` below drives this run, rather than Estimator's own executor."""
    mode = getattr(config, '_distribute_coordinator_mode', None)
    if mode not in (None, _MODE.STANDALONE_CLIENT, _MODE.INDEPENDENT_WORKER):
        logging.warning('Unexpected distribute_coordinator_mode: %r. It is ignored.', mode)
        return False
    return bool(mode and config.cluster_spec)


def train_and_evaluate(
    estimator: tf.estimator.Estimator,
    train_spec: tf.estimator.TrainSpec,
    eval_spec: tf.estimator.EvalSpec,
    executor_cls: type,
) -> None:
    """Does this task's part of a training cluster, and returns when it is done.

    Args:
        estimator: whose config has been through `init_run_config`.
        executor_cls: Estimator's executor; it has the loop of a continuous evaluation.
    """
    config = estimator.config
    mode = config._distribute_coordinator_mode
    task = json.loads(os.environ.get('TF_CONFIG', '{}')).get('task', {})

    def evaluate(strategy: tf.distribute.Strategy | None) -> Any:
        local = _as_task(estimator, coordinator_context.get_current_worker_context())
        local._config._eval_distribute = local._eval_distribution = strategy
        executor_cls(local, train_spec, eval_spec)._start_continuous_evaluation()

    def train(strategy: tf.distribute.Strategy | None) -> Any:
        context = coordinator_context.get_current_worker_context()
        local = _as_task(estimator, context)
        local._config._train_distribute = local._train_distribution = strategy
        watched = mode == _MODE.INDEPENDENT_WORKER or context.is_chief
        with training_end.reported(local.model_dir, context.is_chief, train_spec.max_steps):
            local.train(
                input_fn=train_spec.input_fn,
                max_steps=train_spec.max_steps,
                hooks=list(train_spec.hooks) if watched else [],
                saving_listeners=train_spec.saving_listeners or None,
            )

    if mode == _MODE.INDEPENDENT_WORKER and task.get('type') == _EVALUATOR:
        coordinator._run_single_worker(
            evaluate, config.eval_distribute, None, _EVALUATOR, int(task.get('index', 0)), config.session_config
        )
        return
    if mode == _MODE.INDEPENDENT_WORKER and _EVALUATOR not in config.cluster_spec.jobs:
        logging.warning(
            'No task of this cluster is an evaluator: nothing is evaluated and no exporter '
            'is called, unless a task of type evaluator runs on this model_dir besides.'
        )
    coordinator.run_distribute_coordinator(
        train,
        config.train_distribute,
        evaluate,
        config.eval_distribute,
        mode=mode,
        cluster_spec=config.cluster_spec if mode == _MODE.STANDALONE_CLIENT else None,
        session_config=config.session_config,
    )


def estimator_train(
    estimator: tf.estimator.Estimator,
    train_distributed_fn: Callable[..., Any],
    hooks: list[tf.compat.v1.train.SessionRunHook],
) -> tf.estimator.Estimator:
    """Does `Estimator.train` for a client that drives a remote cluster."""

    def train(strategy: tf.distribute.Strategy | None) -> Any:
        context = coordinator_context.get_current_worker_context()
        local = _as_task(estimator, context)
        local._config._train_distribute = local._train_distribution = strategy
        train_distributed_fn(local, strategy, hooks if context.is_chief else [])
        return local

    return _drive(estimator, train, estimator.config.train_distribute, 'train')


def estimator_evaluate(
    estimator: tf.estimator.Estimator,
    evaluate_distributed_fn: Callable[..., Any],
    hooks: list[tf.compat.v1.train.SessionRunHook],
) -> Any:
    """Does `Estimator.evaluate` for a client that drives a remote cluster."""

    def evaluate(strategy: tf.distribute.Strategy | None) -> Any:
        context = coordinator_context.get_current_worker_context()
        local = _as_task(estimator, context)
        local._config._eval_distribute = local._eval_distribution = strategy
        return evaluate_distributed_fn(local, strategy, hooks if context.is_chief else [])

    return _drive(estimator, evaluate, estimator.config.eval_distribute, 'evaluate')


def _drive(
    estimator: tf.estimator.Estimator,
    worker_fn: Callable[..., Any],
    strategy: tf.distribute.Strategy | None,
    method: str,
) -> Any:
    config = estimator.config
    if config._distribute_coordinator_mode != _MODE.STANDALONE_CLIENT:
        raise ValueError(
            f'Estimator.{method} cannot run in a cluster whose RunConfig has a strategy: '
            'call tf.estimator.train_and_evaluate in every task.'
        )
    if strategy is None or strategy.extended.experimental_between_graph:
        raise ValueError(
            f'Estimator.{method} on a remote cluster needs a strategy that works in one '
            f'graph; got {type(strategy).__name__}.'
        )
    if _EVALUATOR in config.cluster_spec.jobs:
        raise ValueError(f'Estimator.{method} has no use for an evaluator in the cluster.')
    return coordinator.run_distribute_coordinator(
        worker_fn,
        strategy,
        mode=_MODE.STANDALONE_CLIENT,
        cluster_spec=config.cluster_spec,
        session_config=config.session_config,
    )


def _as_task(estimator: tf.estimator.Estimator, context: Any) -> tf.estimator.Estimator:
    """A copy of the Estimator whose RunConfig is that of the task `context` describes."""
    local = copy.deepcopy(estimator)
    config = local._config
    cluster = context.cluster_spec or server_lib.ClusterSpec({})
    evaluates = context.task_type == _EVALUATOR
    config._service = None
    config._task_type = context.task_type
    config._task_id = context.task_id
    config._is_chief = context.is_chief
    config._master = config._evaluation_master = '' if evaluates else context.master_target
    config._cluster_spec = server_lib.ClusterSpec({}) if evaluates else cluster
    config._num_ps_replicas = 0 if evaluates else _count(cluster, _PS)
    config._num_worker_replicas = 0 if evaluates else _count(cluster, _CHIEF, _WORKER) if cluster else 1
    config._global_id_in_cluster = None if evaluates else _global_id(context, cluster)
    config._distribute_coordinator_mode = None  # `train` and `evaluate` of the copy are local
    return local


def _count(cluster: tf.train.ClusterSpec, *roles: str) -> int:
    return sum(len(cluster.as_dict().get(role, [])) for role in roles)


def _global_id(context: Any, cluster: tf.train.ClusterSpec) -> int:
    """The task's number in the order of RunConfig.global_id_in_cluster: chief, workers, ps."""
    before = {_CHIEF: (), _WORKER: (_CHIEF,), _PS: (_CHIEF, _WORKER)}
    if context.task_type not in before:
        return 0
    return _count(cluster, *before[context.task_type]) + context.task_id
