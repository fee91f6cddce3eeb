"""What this process is going to do: config + environment + job -> Plan. Imports no TensorFlow.

Whatever is wrong with the flags, the cluster, the job and the model_dir, and can be seen without TensorFlow, is refused
here: by `make`, and by `with_job` where it takes the job to see it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tf_config
from estimator_trainer import jobs
from estimator_trainer.config import checks
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import early_stopping
from estimator_trainer.jobs import job_data
from estimator_trainer.monitoring.profiles import schedule
from estimator_trainer.run_dir import config_file
from estimator_trainer.secure import entering
from estimator_trainer.this_process import forks, gpus


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is known of a run before TensorFlow is imported.

    Attributes:
        strategy: resolved, never 'auto'.
        cluster, task: an empty cluster and None for a process of its own.
        notes: what the user should be told of where the cluster comes from.
        job: of --job; None before `with_job`, which leaves out a job that imports TensorFlow until that is there.
        job_params: the job's own params, after --param.
        inside: the cluster as this task reaches it from a network of its own; None: it has the machine's.
    """

    config: TrainerConfig
    strategy: str
    cluster: tf_config.Cluster
    task: tf_config.Task | None
    notes: tuple[str, ...] = ()
    job: jobs.Job | None = None
    job_params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    inside: tf_config.Cluster | None = None

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
    def reached(self) -> tf_config.Cluster:
        """The cluster with the addresses that TensorFlow connects to."""
        return self.inside or self.cluster

    @property
    def ways(self) -> dict[str, str]:
        """Address of the cluster -> the address to which this task connects in its place."""
        inside = self.inside
        return {self.cluster.address(task): inside.address(task) for task in self.cluster.tasks} if inside else {}

    @property
    def name(self) -> str:
        """Such as 'worker:1'."""
        return str(self.task) if self.task else 'chief'

    @property
    def is_profiled(self) -> bool:
        """Whether --profile_tasks includes this task."""
        return self.trains and schedule.includes(self.config.profile_tasks, self.name, self.is_chief)

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
    def batches_per_step(self) -> int:
        """Batches of --batch_size that make up one step: as many as this many replicas would train without
        accumulation."""
        return self.num_replicas * self.config.accumulate_steps

    @property
    def global_batch_size(self) -> int:
        return self.config.batch_size * self.batches_per_step

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
            return self.task is not None and self.task.role == 'evaluator' and self.task.index == 0
        return self.is_chief

    @property
    def uses_parameter_servers(self) -> bool:
        return self.strategy == 'parameter_server'

    @property
    def is_mirrored(self) -> bool:
        """Whether the replicas are those of one process, and add up gradients within it."""
        return self.strategy == 'mirrored'

    @property
    def is_multi_worker(self) -> bool:
        """Whether training uses TensorFlow's collectives between tasks. There may be one such task."""
        return self.strategy == 'multi_worker_mirrored'

    @property
    def in_sync(self) -> bool:
        """Whether this task trains in step with others, by TensorFlow's collectives."""
        return self.trains and self.is_multi_worker and self.num_training_tasks > 1

    @property
    def asynchronous(self) -> bool:
        """Whether other tasks move the global step as well."""
        return self.uses_parameter_servers and not self.config.sync_ps

    @property
    def stop_rule(self) -> early_stopping.EarlyStopping | None:
        """When training stops early; None: never. Of a plan with a job."""
        assert self.job is not None
        return early_stopping.rule_of(self.config, self.job.best_metric, self.job.best_mode)

    @property
    def added_params(self) -> Mapping[str, Any]:
        """What a run lacks that began before this package gave a built-in job a new param, with the param's default."""
        return self.job.params if self.job and self.config.job in jobs.BUILT_IN else {}

    def watched_peers(self) -> dict[str, str]:
        """name -> address of the tasks without which this one cannot go on.

        Synchronous workers watch the chief, and the chief them: when it ends, so do they. All workers watch the
        parameter servers, and asynchronous ones nobody else. These need any of the workers.
        """
        cluster, task = self.cluster, self.task
        if task is None or self.role == 'evaluator' or self.trains_alone:
            return {}
        watched: Sequence[tf_config.Task | None]
        if self.role == 'ps':
            watched = cluster.training_tasks
        elif self.asynchronous:
            watched = self._servers
        elif self.is_chief:
            watched = [*self._servers, *(other for other in cluster.training_tasks if other != task)]
        else:
            watched = [*self._servers, cluster.chief_task]
        return {str(other): cluster.address(other) for other in watched if other}

    @property
    def _servers(self) -> tuple[tf_config.Task, ...]:
        return tuple(self.cluster.tasks_of('ps')) if self.uses_parameter_servers else ()

    @property
    def num_watchers(self) -> int:
        """How many tasks watch the peers that this task watches, itself included."""
        if self.role == 'ps':
            return len(self.cluster.ps)
        if self._servers:
            return self.num_training_tasks
        return 1 if self.is_chief else self.num_training_tasks - 1


def make(config: TrainerConfig, environ: Mapping[str, str]) -> Plan:
    """Resolves the strategy and this task's role.

    Raises:
        UsageError: TF_CONFIG, or what an engine and the flags say in its place, is wrong or does not
            fit the strategy.
    """
    handed_over = entering.state.parsed if entering.state else None
    try:
        layout = tf_config.read_layout(config.cluster_from, config.roles, config.base_port, config.hosts, config.rank)
        resolved = handed_over or tf_config.resolve(environ, layout, config.strategy)
    except tf_config.TfConfigError as error:
        raise UsageError(str(error)) from error
    cluster = resolved.cluster
    number, devices = gpus.replicas(config.num_replicas, bool(cluster.ps), gpus.visible(environ))
    is_auto, config = config.num_replicas == 0, dataclasses.replace(config, num_replicas=number)
    strategy = config.strategy
    if strategy == 'auto':
        strategy = tf_config.auto_strategy(cluster)
        if strategy == 'none' and config.num_replicas > 1:
            strategy = 'mirrored'
    if strategy == 'parameter_server' and config.loop != 'estimator':
        raise UsageError(checks.parameter_server_refused(config.loop))
    if config.sync_ps and strategy != 'parameter_server':
        raise UsageError(
            f'--sync_ps: is for a cluster with parameter servers; the strategy is {strategy}, in which workers are '
            'synchronous anyway.'
        )
    if config.accumulate_steps > 1 and strategy == 'parameter_server' and not config.sync_ps:
        raise UsageError(
            f'--accumulate_steps={config.accumulate_steps}: asynchronous workers have no common step; add --sync_ps, '
            'with which they train in step.'
        )
    if config.num_replicas > 1 and strategy in ('none', 'parameter_server'):
        raise UsageError(
            f'--num_replicas={config.num_replicas} needs --strategy=mirrored or '
            f'multi_worker_mirrored; the strategy is {strategy}.'
        )
    if config.eval_strategy == 'mirrored' and config.num_replicas == 1:
        if not is_auto:
            raise UsageError(
                '--eval_strategy=mirrored with --num_replicas=1: one replica has nothing to '
                'mirror; set --num_replicas=2 or more.'
            )
        config = dataclasses.replace(config, eval_strategy='none')
    schedule.check_tasks(config.profile_tasks, [str(each) for each in cluster.training_tasks])
    plan = Plan(config, strategy, cluster, resolved.task, (*resolved.notes, *devices))
    if config.stop_metric and (plan.num_training_tasks > 1 or cluster.ps) and not plan.has_evaluator:
        raise UsageError(
            f'--stop_metric={config.stop_metric}: nobody evaluates while this cluster trains; list an evaluator in it.'
        )
    return plan


def with_job(plan: Plan, early: bool = False) -> Plan:
    """The plan with the job of --job.

    Args:
        early: TensorFlow is not there yet. For a job that imports it the plan comes back as it is; call this again.

    Raises:
        JobError: there is no such job, or it has no such param.
        UsageError: the job's params cannot work, or --loop cannot train it, or the flags and its data do not go
            together, or the model_dir holds another run.
        DatasetError: its files are not there.
    """
    config = plan.config
    with forks.parent_only():
        job = jobs.load_early(config.job) if early else jobs.load(config.job)
        if job is None:
            return plan
        params = jobs.checked_params(job, config.param)
    if config.loop != 'estimator' and job.make_model is None:
        raise UsageError(
            f'--loop={config.loop}: job {config.job} has no make_model, only Estimator can '
            'train it; give it make_model and parts, or use --loop=estimator.'
        )
    job_data.look_for(job, config)
    plan = dataclasses.replace(plan, job=job, job_params=params)
    _ = plan.stop_rule  # refuses a metric of which nobody says whether lower is better
    config_file.refuse_another_run(config.model_dir, config_file.resolved(plan, {}), plan.added_params)
    return plan
