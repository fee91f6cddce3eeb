"""The part this process plays: config + environment -> Plan. Imports no TensorFlow."""

import dataclasses
import os

import tf_config
from estimator_trainer import config_checks
from estimator_trainer.config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.profiles import wanted
from estimator_trainer.run_dir import protocol


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is known of a run before TensorFlow is imported.

    Attributes:
        strategy: resolved, never 'auto'.
        cluster, task: an empty cluster and None for a process of its own.
        notes: what the user should be told of where the cluster comes from.
    """

    config: TrainerConfig
    strategy: str
    cluster: tf_config.Cluster
    task: tf_config.Task | None
    notes: tuple = ()

    @property
    def role(self) -> str:
        """chief, worker, ps or evaluator. A process of its own is its chief."""
        if self.task is None or self.task == self.cluster.chief_task:
            return 'chief'
        return self.task.role

    @property
    def is_chief(self) -> bool:
        return self.role == 'chief'

    @property
    def chief_address(self) -> str | None:
        """'host:port'; None where there is no cluster."""
        chief = self.cluster.chief_task
        return self.cluster.address(chief) if chief else None

    @property
    def name(self) -> str:
        """Such as 'worker:1'."""
        return str(self.task) if self.task else 'chief'

    @property
    def is_profiled(self) -> bool:
        """Whether --profile_tasks includes this task."""
        return self.trains and wanted.includes(self.config.profile_tasks, self.name, self.is_chief)

    @property
    def trains(self) -> bool:
        return self.role in ('chief', 'worker')

    @property
    def num_training_tasks(self) -> int:
        return max(1, len(self.cluster.chief) + len(self.cluster.worker))

    @property
    def trains_alone(self) -> bool:
        """No other task has a part in the training."""
        return self.trains and self.num_training_tasks == 1 and not self.cluster.ps

    @property
    def in_sync(self) -> bool:
        """Whether this task trains with others in collective operations."""
        return self.trains and self.strategy == 'multi_worker_mirrored' and self.num_training_tasks > 1

    @property
    def training_index(self) -> int:
        """This task's place among the chief and the workers; 0 for every other task."""
        if self.task is None or self.task.role != 'worker':
            return 0
        return len(self.cluster.chief) + self.task.index

    @property
    def num_replicas(self) -> int:
        """Replicas in sync: those whose batches make up one step."""
        if self.asynchronous:
            return 1
        return self.num_training_tasks * self.config.num_replicas

    @property
    def global_batch_size(self) -> int:
        return self.config.batch_size * self.num_replicas

    @property
    def num_tasks(self) -> int:
        """Tasks of the cluster, an evaluator that it does not list included where it is this task."""
        outside = self.task is not None and self.task not in self.cluster
        return max(1, len(self.cluster) + outside)

    @property
    def has_evaluator(self) -> bool:
        return bool(self.cluster.evaluator) or self.role == 'evaluator'

    @property
    def evaluates(self) -> bool:
        """Whether this task evaluates checkpoints."""
        return self.role == 'evaluator' or (self.is_chief and not self.has_evaluator)

    @property
    def writes_page(self) -> bool:
        """Whether report.html is this task's: the evaluator ends last. The chief does not know of one that the cluster
        does not list."""
        if self.cluster.evaluator:
            return self.role == 'evaluator' and self.task.index == 0
        return self.is_chief

    @property
    def asynchronous(self) -> bool:
        """Whether other tasks move the global step as well."""
        return self.strategy == 'parameter_server' and not self.config.sync_ps

    def watched_peers(self) -> dict:
        """name -> address of the tasks without which this one cannot go on.

        Synchronous workers watch the chief, and the chief them: when it ends, so do they. All workers watch the
        parameter servers, and asynchronous ones nobody else. These need any of the workers.
        """
        cluster, task = self.cluster, self.task
        if task is None or self.role == 'evaluator' or self.trains_alone:
            return {}
        if self.role == 'ps':
            watched = cluster.training_tasks
        elif self.asynchronous:
            watched = self._servers
        elif self.is_chief:
            watched = [*self._servers, *(other for other in cluster.training_tasks if other != task)]
        else:
            watched = [*self._servers, cluster.chief_task]
        return {str(other): cluster.address(other) for other in watched}

    @property
    def _servers(self) -> tuple:
        return tuple(self.cluster.tasks_of('ps')) if self.strategy == 'parameter_server' else ()

    @property
    def num_watchers(self) -> int:
        """How many tasks watch the peers that this task watches, itself included."""
        if self.role == 'ps':
            return len(self.cluster.ps)
        if self._servers:
            return self.num_training_tasks
        return 1 if self.is_chief else self.num_training_tasks - 1

    def describe(self, data: str = '') -> list:
        """The lines that say what will happen, for the log and for --dry_run.

        `data`: what the job reads; '' where it is not known before the job is loaded.
        """
        config = self.config
        model_dir = f'model_dir {protocol.shown(config.model_dir, os.environ)}'
        lines = [', '.join(filter(None, (f'job {config.job}', data, model_dir)))]
        name = str(self.task) if self.task else 'this process'
        chief = ' (chief)' if self.is_chief and self.task else ''
        in_step = ' in step (--sync_ps)' if config.sync_ps else ''
        lines.append(
            f'loop {config.loop}, strategy {self.strategy}{in_step}; {name}{chief} of {self.num_tasks} task(s)'
        )
        if self.asynchronous:
            lines.append(
                f'asynchronous: {self.num_training_tasks} workers, each step is one batch of '
                f'{config.batch_size} on one of them; which worker trains which example is '
                'not repeatable'
            )
        else:
            lines.append(
                f'batch: {config.batch_size} per replica x {self.num_replicas} replica(s) = '
                f'{self.global_batch_size} global'
            )
        if self.has_evaluator:
            lines.append('evaluation: by the evaluator task, every checkpoint it can and always the last')
        elif self.num_training_tasks > 1 or self.cluster.ps:
            lines.append('evaluation: by the chief, at the end (the cluster has no evaluator)')
        else:
            lines.append(f'evaluation: by this process, at most every {config.eval_throttle_secs} s, and at the end')
        return lines


def make(config: TrainerConfig, environ) -> Plan:
    """Resolves the strategy and this task's role.

    Raises:
        UsageError: TF_CONFIG, or what an engine and the flags say in its place, is wrong or does not
            fit the strategy.
    """
    try:
        layout = tf_config.read_layout(config.cluster_from, config.roles, config.base_port, config.hosts, config.rank)
        found = tf_config.resolve(environ, layout, config.strategy)
    except tf_config.TfConfigError as error:
        raise UsageError(str(error)) from error
    strategy = config.strategy
    if strategy == 'auto':
        strategy = tf_config.auto_strategy(found.cluster)
        if strategy == 'none' and config.num_replicas > 1:
            strategy = 'mirrored'
    if strategy == 'parameter_server' and config.loop != 'estimator':
        raise UsageError(config_checks.parameter_server_refused(config.loop))
    if config.sync_ps and strategy != 'parameter_server':
        raise UsageError(
            f'--sync_ps: is for a cluster with parameter servers; the strategy is {strategy}, in which workers are '
            'synchronous anyway.'
        )
    if config.num_replicas > 1 and strategy in ('none', 'parameter_server'):
        raise UsageError(
            f'--num_replicas={config.num_replicas} needs --strategy=mirrored or '
            f'multi_worker_mirrored; the strategy is {strategy}.'
        )
    if config.eval_strategy == 'mirrored' and config.num_replicas == 1:
        raise UsageError(
            '--eval_strategy=mirrored with --num_replicas=1: one replica has nothing to '
            'mirror; set --num_replicas=2 or more.'
        )
    wanted.check_tasks(config.profile_tasks, [str(task) for task in found.cluster.training_tasks])
    plan = Plan(config, strategy, found.cluster, found.task, tuple(found.notes))
    in_cluster = plan.num_training_tasks > 1 or found.cluster.ps
    if config.stop_metric and in_cluster and not plan.has_evaluator:
        raise UsageError(
            f'--stop_metric={config.stop_metric}: nobody evaluates while this cluster trains; list an evaluator in it.'
        )
    return plan
