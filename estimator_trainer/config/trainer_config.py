"""Reads a command line into a TrainerConfig, which is frozen and checked. Declares the flags of the trainer, with
job_flags.py. Imports no TensorFlow."""

import dataclasses
import functools
import os
from collections.abc import Sequence

from estimator_trainer.config import checks, commands, flags, mixed_precision, urls
from estimator_trainer.config.declaration import flag
from estimator_trainer.config.job_flags import JobFlags
from estimator_trainer.monitoring import trackers

_THROTTLE_SECS = 600  # without a flag


class HelpRequested(Exception):
    """--help was given. Carries the text."""


_training = functools.partial(flag, group='Training')
_early = functools.partial(flag, group='Early stopping')
_bound = functools.partial(flag, group='Bounds', unit='s')
_evaluation = functools.partial(flag, group='Evaluation and export')
_progress = functools.partial(flag, group='Checkpoints and progress')


@dataclasses.dataclass(frozen=True)
class TrainerConfig(JobFlags):
    """The flags of one run, those of `job_flags` first."""

    batch_size: int = _training(
        64,
        'Examples of each replica in a step. The global batch is batch_size x replicas x accumulate_steps.',
        least=1,
        why='a common size that fits every device',
    )
    accumulate_steps: int = _training(
        1,
        'Batches of a replica whose gradients are added up for one step. A replica that accumulates 4 batches computes '
        'the weights of 4 replicas, in the memory of one batch. Steps, epochs, learning rates and the params '
        'num_replicas and global_batch_size are those of so many replicas.',
        least=1,
        why='each batch is a step',
    )
    max_steps: int | None = _training(
        None, 'Global step at which training ends. Give this or --epochs.', least=1, unset='--epochs decides'
    )
    epochs: float | None = _training(
        None,
        'Passes over the training split after which training ends.',
        above=0,
        wanted='a number over 0 is needed.',
        unset='--max_steps decides',
        excludes=('max_steps',),
    )
    max_secs: int | None = _training(
        None,
        'Training stops after this much wall time, and its last step is saved, evaluated and exported. Under '
        'run_local_cluster.sh, Slurm and Ray it counts from the start of the cluster or job, restarts included; '
        'elsewhere (the trainer alone, Kubernetes, Slurm with a store) from where training begins, in each start anew.',
        unit='s',
        least=1,
        unset='no bound',
    )
    seed: int = _training(
        1,
        'Seed of the initial weights and of the order of the data.',
        least=0,
        most=2**31 - 1,
        wanted='at least 0 and less than 2**31 is needed.',
        why='two runs with the same seed can be compared',
    )
    deterministic: bool = _training(False, 'Makes runs repeatable bit for bit.', why='it makes steps somewhat slower')

    mixed_precision: str | None = _training(
        None,
        'Training computes in 16 bits where that is faster: an Estimator on CPUs, a Keras model on GPUs too. Weights, '
        'checkpoints, evaluations and exports are float32. float16 is for --loop=keras_fit and custom_loop on GPUs, '
        'and scales the loss dynamically.',
        choices=mixed_precision.KINDS,
        unset='float32',
        why='16 bits round the activations and gradients, which some models do not bear',
    )

    sync_ps: bool = _training(
        False,
        'With parameter servers: the workers train in step. The mean of their gradients makes one step.',
        why='workers with parameter servers are asynchronous, and none waits for another',
    )

    stop_metric: str = _early(
        '', 'Stop when this metric of the evaluation no longer improves.', unset='training does not stop early'
    )
    stop_mode: str | None = _early(
        None,
        'Whether lower (min) or higher (max) is better. Needed if neither the job nor the name of the metric says it.',
        choices=('min', 'max'),
        unset="the job's, if it is its best_metric; else as the name says: min for a loss or an error, max for "
        'accuracy, AUC, precision or recall',
    )
    stop_patience: int = _early(
        3, 'Evaluations in a row without an improvement.', least=1, why='one evaluation that is worse is often noise'
    )
    stop_min_delta: float = _early(
        0.0,
        'An improvement is a change by more than this.',
        least=0,
        wanted='a number from 0 is needed.',
        why='every improvement counts',
    )

    join_timeout_secs: int = _bound(
        60,
        "Time for the tasks of a cluster to find each other, and to see the chief's files in the model_dir.",
        least=1,
        last_counts=True,
        why='tasks that start together need less than half of it; Kubernetes manifests give 600 s',
    )
    lost_peer_secs: int = _bound(
        30,
        'A task that has not answered for this time is lost, and the other tasks end.',
        least=5,
        why='longer than a loaded machine pauses, and short beside a restart',
    )
    step_timeout_secs: int = _bound(
        1800,
        'Longest time of one step with its checkpoint. Also the longest time in which the chief verifies the newest '
        'checkpoint. 0: no bound.',
        least=0,
        why='no ordinary step takes half an hour',
    )
    grace_secs: int = _bound(
        25,
        'Longest time from SIGTERM or Ctrl-C to the end of the task, with a checkpoint.',
        least=1,
        why='5 s less than the 30 s after which Kubernetes and run_local_cluster.sh kill',
    )

    max_unpushed_secs: int = _bound(
        3600,
        'For a --model_dir with a URL: training ends if no checkpoint could be sent to the store for this time.',
        least=1,
        why='an outage of an hour is rare, and what was not sent is lost with the machine',
    )

    eval_batch_size: int | None = _evaluation(
        None,
        'Examples of each replica in a batch of an evaluation. It changes the speed and the memory of an evaluation, '
        'but no metric, unless --eval_steps bounds the evaluation.',
        least=1,
        unset='--batch_size',
    )
    eval_steps: int | None = _evaluation(None, 'Batches of one evaluation.', least=1, unset='the whole eval split')
    eval_throttle_secs: int | None = _evaluation(
        None,
        'In a process that both trains and evaluates: the shortest time between two evaluations. The last checkpoint '
        'is always evaluated.',
        unit='s',
        least=0,
        unset='600 s, the default of tf.estimator.EvalSpec; with --stop_metric 0, so that it sees each checkpoint',
    )
    export: tuple[str, ...] = _evaluation(
        ('best', 'final'),
        'Which SavedModels are written: best, final, both (best,final) or none.',
        why='best is for serving; final is what training ended with',
    )

    save_checkpoints_steps: int | None = _progress(
        None, 'Steps between checkpoints.', least=1, unset='by --save_checkpoints_secs'
    )
    save_checkpoints_secs: int | None = _progress(
        None,
        'Time between checkpoints.',
        unit='s',
        least=1,
        unset='600 s',
        why="Estimator's default",
        excludes=('save_checkpoints_steps',),
    )
    save_checkpoints_epochs: int | None = _progress(
        None,
        'For keras_fit and custom_loop: epochs between checkpoints.',
        least=1,
        unset='1 for keras_fit, which saves by time as well; none for custom_loop',
        why="Keras's callbacks work by epoch",
    )
    keep_checkpoints: int = _progress(
        5, 'Newest checkpoints that are kept. 0: all.', least=0, why="Estimator's default"
    )
    save_summary_steps: int = _progress(
        100, 'Steps between TensorBoard summaries. 0: none.', least=0, why="Estimator's default"
    )
    log_every_steps: int = _progress(
        100, 'Steps between lines of progress and of metrics.jsonl.', least=1, why="Estimator's default"
    )
    progress: str = _progress(
        'auto',
        'How progress is shown. auto: a bar on a terminal, lines elsewhere; on: a bar; off: lines. A local cluster '
        'shows one line for all tasks below their output, on a terminal and unless this is off.',
        choices=('auto', 'on', 'off'),
        why='a bar makes a log file unreadable',
    )
    report: str = _progress(
        'auto',
        'Whether report.html, the page of the run, is written: about every 10 minutes, and at the end of a run of '
        '5 seconds or more, by a process of its own. auto: if Jinja and Matplotlib are installed and the environment '
        'does not say ESTIMATOR_TRAINER_REPORT=off.',
        choices=('auto', 'off'),
        why='people look at a page sooner than they read logs',
    )
    track: tuple[str, ...] = _progress(
        (),
        'Sends params, metrics, exports and the end of the run to a tracker, by a process of its own: mlflow:URI (a '
        'server, a folder or sqlite:///FILE), wandb, or tensorboard-hparams. What cannot be sent is sent by the next '
        'start. Repeatable.',
        repeated=True,
        unset='no tracker',
    )
    profile_steps: str = _progress(
        '',
        'AFTER,TO: profiles the steps after step AFTER, up to step TO; at most 100 of them. With or without this flag, '
        'SIGUSR2 makes a task profile its next 20 steps.',
        unset='nothing is profiled',
    )
    profile_tasks: str = _progress(
        'chief',
        'Which tasks profile: chief, all that train, or names such as worker:0,worker:1.',
        why='synchronous tasks do the same, and each profile takes memory and disk',
    )
    metrics_port: str = _progress(
        '',
        'Serves metrics for Prometheus at http://127.0.0.1:PORT/metrics: a port, 0 for a free port, or HOST:PORT to '
        'listen at another address. The chief serves the metrics; under run_local_cluster.sh, the supervisor serves '
        'those of the whole cluster.',
        unset='no port',
        why='a port that nobody asked for is a risk',
    )
    dry_run: bool = _progress(
        False,
        'Print the resolved run to stdout, and stop: data, steps, checkpoints, exports, where it would resume.',
        why='a command usually trains',
    )

    @property
    def batch_of_evaluation(self) -> int:
        """Examples of each replica in a batch of an evaluation."""
        return self.batch_size if self.eval_batch_size is None else self.eval_batch_size

    @property
    def throttle_secs(self) -> int:
        """The shortest time between two evaluations, in seconds."""
        if self.eval_throttle_secs is None:
            return 0 if self.stop_metric else _THROTTLE_SECS
        return self.eval_throttle_secs


def parse(argv: Sequence[str]) -> TrainerConfig:
    """Reads the flags and flagfiles of argv, whose first item is the program's name.

    Raises:
        UsageError: an unknown flag, a value of the wrong kind, a contradiction, a missing flagfile.
        HelpRequested: --help or --helpfull is among them.
    """
    return parse_with_overrides(argv)[0]


def parse_with_overrides(argv: Sequence[str]) -> tuple[TrainerConfig, tuple[str, ...]]:
    """Does what `parse` does, and returns a line for each flag that does not count because another one does."""
    if flags.wants_help(argv[1:]):
        raise HelpRequested(help_text())
    parsed = flags.parse_with_overrides(TrainerConfig, argv)
    return _resolved(parsed.config), tuple(map(str, parsed.overrides))


def _resolved(config: TrainerConfig) -> TrainerConfig:
    config = dataclasses.replace(
        config,
        job=os.path.abspath(os.path.expanduser(config.job)) if config.job_is_file else config.job,
        export=tuple(kind for kind in config.export if kind) or ('none',),
        model_dir=urls.normal(os.path.expanduser(config.model_dir)),
        data_dir=urls.normal(os.path.expanduser(config.data_dir)),
        data_cache_dir=os.path.expanduser(config.data_cache_dir),
        secure_key_file=os.path.abspath(os.path.expanduser(config.secure_key_file)) if config.secure_key_file else '',
        track=tuple(map(str, trackers.targets(config.track))),
    )
    checks.refuse_contradictions(config)
    # The paths become absolute, because the job's code may change the current folder.
    folders = {
        name: os.path.abspath(vars(config)[name])
        for name in ('model_dir', 'data_dir', 'data_cache_dir')
        if vars(config)[name] and not urls.is_url(vars(config)[name])
    }
    return dataclasses.replace(config, **folders)


def help_text() -> str:
    """The --help text: the commands, and every flag of the trainer by group."""
    usage = 'train: python -m estimator_trainer --flagfile=FILE --model_dir=FOLDER [--flag=value ...]'
    return f'{commands.help_text()}\n\n{usage}\n\n{flags.help_text(TrainerConfig)}'
