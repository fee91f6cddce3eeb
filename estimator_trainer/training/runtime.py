"""Plan -> what TensorFlow is given: TF_CONFIG, devices, strategies and the RunConfig.

This is the only place that sets TF_CONFIG.
"""

import logging
import os
from typing import NamedTuple

import tensorflow as tf

import tf_config
from estimator_trainer.compat.patches import coordination_service, eager_context, python_lock, session_mends
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs.job_types import RunConfig
from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.run_dir import machine
from estimator_trainer.this_process import gpus as gpus_here
from estimator_trainer.training import dues, failures
from estimator_trainer.training.plan import Plan

_log = logging.getLogger('estimator_trainer')
_LEAST_SYNC_THREADS = 4


class RunConfigs(NamedTuple):
    """`own`: of this task. `local`: for an evaluation in this process alone, once a cluster has
    trained."""

    own: RunConfig
    local: RunConfig


def set_devices(plan: Plan) -> None:
    """Sets threads, logical devices and determinism. Called before any other TensorFlow work.

    Raises:
        UsageError: the process has fewer devices than `--num_replicas` asks for.
    """
    config = plan.config
    tf.config.threading.set_intra_op_parallelism_threads(config.intra_op_threads)
    tf.config.threading.set_inter_op_parallelism_threads(_inter_op_threads(plan))
    if config.deterministic:
        tf.keras.utils.set_random_seed(config.seed)
        tf.config.experimental.enable_op_determinism()
    gpus = _gpus()
    if not gpus and (there := gpus_here.visible(os.environ)):
        _log.warning('WARNING: %s', gpus_here.not_seen(there))
    if gpus and config.num_replicas > len(gpus):
        raise UsageError(
            f'--num_replicas={config.num_replicas}: this process has {len(gpus)} GPU(s); give as many, or auto.'
        )
    if gpus:  # TensorFlow would take every one it sees
        tf.config.set_visible_devices(gpus[: config.num_replicas], 'GPU')
        return
    if config.num_replicas > 1 and plan.is_multi_worker:
        raise UsageError(
            f'--num_replicas={config.num_replicas}: without GPUs a worker has one replica; start more workers.'
        )
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices('CPU')[0], [tf.config.LogicalDeviceConfiguration()] * config.num_replicas
    )


def make_run_configs(plan: Plan, watchdog: watchdogs.Watchdog) -> RunConfigs:
    """Makes the strategies and RunConfigs; with several workers this opens the task's port.

    It waits for the other workers; `watchdog` bounds that.
    """
    for_tensorflow = tf_config.for_tensorflow(plan.reached, plan.task, plan.strategy) if plan.task else None
    _set_tf_config(None)
    local = _run_config(plan, None)
    _set_tf_config(for_tensorflow)
    with watchdog.shielded():  # TensorFlow's preemption notifier takes SIGTERM, and does nothing
        train_strategy = _train_strategy(plan)
    session_mends.guard_functions(watchdogs.SIGNALS)
    session_mends.end_forked_children()
    session_mends.raise_every_error()
    if plan.trains_alone:
        failures.save_if_input_fails(watchdog)
    own = _run_config(plan, train_strategy) if for_tensorflow or train_strategy else local
    return RunConfigs(own, local)


def _set_tf_config(text: str | None) -> None:
    os.environ.pop('TF_CONFIG', None)
    if text:
        os.environ['TF_CONFIG'] = text


def _inter_op_threads(plan: Plan) -> int:
    """A synchronous task's server answers the others on these threads as well, heartbeats included: on a single core
    there would be one, which any operation that waits takes away. All-reduces in shared memory count on these too."""
    threads = plan.config.inter_op_threads
    if not plan.is_multi_worker:
        return threads
    return max(_LEAST_SYNC_THREADS, threads or machine.cores())


def has_gpus() -> bool:
    """Whether the replicas of this process are on GPUs."""
    return bool(_gpus())


def trains_alone_on_cpus(plan: Plan) -> bool:
    return plan.trains_alone and not plan.is_multi_worker and not has_gpus()


def _gpus() -> list[tf.config.PhysicalDevice]:
    return tf.config.get_visible_devices('GPU')


def _train_strategy(plan: Plan) -> tf.distribute.Strategy | None:
    if plan.trains and plan.is_mirrored:
        return _mirrored(plan)
    if not plan.trains or not plan.is_multi_worker:
        return None
    python_lock.install()  # so that the watchdog runs while this task waits for the others
    # A job may have turned eager execution off. The strategy starts the service by which tasks agree only with it.
    with coordination_service.heartbeats_put_off(), eager_context.at_once():
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=_communication(plan))


def _communication(plan: Plan) -> tf.distribute.experimental.CommunicationOptions:
    """NCCL adds up gradients that are on GPUs, unless the user wants the network or two tasks share a GPU."""
    if _gpus() and (plan.config.all_reduce == 'network' or os.environ.get(gpus_here.SHARED)):
        ring = tf.distribute.experimental.CommunicationImplementation.RING
        return tf.distribute.experimental.CommunicationOptions(implementation=ring)
    return tf.distribute.experimental.CommunicationOptions()


def _mirrored(plan: Plan) -> tf.distribute.Strategy:
    kind = 'gpu' if _gpus() else 'cpu'
    # The default one of CPUs waits inside its operations, and hangs where there are few threads.
    cross_device_ops = None if kind == 'gpu' else tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(
        [f'/{kind}:{number}' for number in range(plan.config.num_replicas)], cross_device_ops
    )


def _run_config(plan: Plan, train_strategy: tf.distribute.Strategy | None) -> RunConfig:
    config = plan.config
    return tf.estimator.RunConfig(
        model_dir=config.model_dir,
        tf_random_seed=config.seed,
        train_distribute=train_strategy,
        eval_distribute=_mirrored(plan) if config.eval_strategy == 'mirrored' else None,
        save_checkpoints_steps=config.save_checkpoints_steps,
        save_checkpoints_secs=dues.save_rule(config).secs,
        save_summary_steps=config.save_summary_steps,
        keep_checkpoint_max=config.keep_checkpoints,
        log_step_count_steps=None,  # the trainer's own hook reports
        session_config=_session_config(plan),
        session_creation_timeout_secs=config.join_timeout_secs,
        experimental_max_worker_delay_secs=0,
    )


def _session_config(plan: Plan) -> tf.compat.v1.ConfigProto:
    config = plan.config
    session = tf.compat.v1.ConfigProto(
        allow_soft_placement=True,
        intra_op_parallelism_threads=config.intra_op_threads,
        inter_op_parallelism_threads=_inter_op_threads(plan),
    )
    session.gpu_options.allow_growth = True
    if not _gpus():
        session.device_count['CPU'] = config.num_replicas
    if plan.uses_parameter_servers and plan.trains and plan.task:
        # Its workers need not hear of each other, only of the parameter servers.
        session.device_filters.extend(['/job:ps', f'/job:{plan.task.role}/task:{plan.task.index}'])
    return session
