"""argv -> TrainerConfig: typed, frozen, checked. Declares each flag of the trainer. Imports no TensorFlow."""

import dataclasses
import functools
import os

import tf_config
from estimator_trainer import commands, config_checks, flags, trackers
from estimator_trainer.flags import flag
from estimator_trainer.storage import urls


class HelpRequested(Exception):
    """--help was given. Carries the text."""


_job = functools.partial(flag, group='What is trained')
_data = functools.partial(flag, group='Data')
_device = functools.partial(flag, group='Devices')
_cluster = functools.partial(flag, group='Cluster')
_training = functools.partial(flag, group='Training')
_early = functools.partial(flag, group='Early stopping')
_bound = functools.partial(flag, group='Bounds', unit='s')
_evaluation = functools.partial(flag, group='Evaluation and export')
_progress = functools.partial(flag, group='Checkpoints and progress')


@dataclasses.dataclass(frozen=True)
class TrainerConfig:
    """The flags of one run."""

    job: str = _job(
        'mnist',
        'A built-in job (mnist, fashion_mnist, wide_and_deep), or package.module:attribute of your own.',
        why='its data need no download',
    )
    param: tuple = _job((), 'name=value: overrides a param of the job. Repeatable.', repeated=True)
    loop: str = _job(
        'estimator',
        'What trains the job. keras_fit and custom_loop need a job with make_model.',
        choices=('estimator', 'keras_fit', 'custom_loop'),
        why='Estimator trains every job',
    )
    steps_per_call: str = _job(
        'auto',
        'Number of training steps in one call of TensorFlow, or auto. A call ends at a step after which a report, a '
        'checkpoint, a summary or the end is due. auto: as many steps as take 0.2 s, and at most 10 for an Estimator '
        'with several workers.',
        why='each call costs Python about a millisecond, in which small models train several steps',
    )
    model_dir: str = _job(
        '',
        'Folder of checkpoints, metrics and exports, or its URL in an object store (s3://, gs://, az://). The same '
        'command with the same folder resumes.',
        unset=flags.REQUIRED,
    )
    scratch_dir: str = _job(
        '',
        'For a --model_dir with a URL: the folder of this machine in which the run works. What it writes there is sent '
        'to the store.',
        unset='a folder of that URL in ~/.cache/estimator_trainer',
    )
    allow_config_change: bool = _job(
        False,
        'Resume although config.json in the model_dir differs in job, loop, params, global batch, seed or data set. '
        'With another global batch --epochs count the examples that have been trained.',
        why='such a difference is usually a mistake',
    )

    dataset: str = _data(
        'mnist_5k',
        'An image classification set of TensorFlow Datasets (TFDS), or mnist_5k: 5,000 digits that come in a package.',
        why='nothing is downloaded',
    )
    data_dir: str = _data(
        '',
        'Folder of the data sets that TFDS has prepared, or its URL in an object store (s3://, gs://, az://).',
        unset='~/tensorflow_datasets',
        why="TFDS's own default",
    )
    in_memory_mb: int = _data(
        1024,
        'The training split of --dataset is held in memory, and read in an exact order, if it takes at most this much '
        'memory when decoded. A larger one is streamed. For files, this bounds the memory of decoded row groups and of '
        'compressed files.',
        unit='MiB',
        least=0,
        why='MNIST takes 45 MiB, CIFAR-10 146 MiB; much larger sets leave too little for the model',
    )

    train_files: str = _data(
        '',
        'Files to train on: names, globs or URLs of an object store (s3://bucket/data/*.tfrecord, gs://, az://), '
        'separated by commas. For jobs with a file_spec.',
        unset='none',
    )
    eval_files: str = _data('', 'Files to evaluate on, as --train_files.', unset='none')
    file_format: str = _data(
        'auto',
        'Format of the files. auto goes by their names.',
        choices=('auto', 'tfrecord', 'csv', 'parquet', 'array_record'),
        why='the usual names end in .tfrecord, .csv, .parquet or .array_record',
    )
    shuffle: str = _data(
        'auto',
        'Order of the training files in each epoch. records: all examples are shuffled. blocks: blocks of neighbours '
        'are shuffled, and then the examples of 16 blocks, or of 256 MiB, together. none: the order of the files. '
        'auto: records if the files can be read from any position or fit into --in_memory_mb, else blocks.',
        choices=('auto', 'records', 'blocks', 'none'),
        why='a full shuffle is best for training; Parquet and compressed files have to be decoded by the block',
    )
    max_bad_examples: int = _data(
        0,
        'Each task leaves out up to this many damaged or incomplete examples of the files; one more ends the run.',
        least=0,
        why='a damaged file should be noticed',
    )

    data_cache_dir: str = _data(
        '',
        'Folder of this machine that holds copies of the data of object stores; the runs of a user may share it.',
        unset='~/.cache/estimator_trainer/data',
    )
    data_cache_mib: int = _data(
        urls.DATA_CACHE_MIB,
        'Largest size of --data_cache_dir. Files that fit into it are fetched whole before training begins, others '
        'block by block while it runs. The blocks and files that were used least recently are removed first.',
        unit='MiB',
        least=1,
        why='room for the data of most jobs, and most disks have it',
    )

    strategy: str = _device(
        'auto',
        'How training is distributed. auto follows the cluster and --num_replicas.',
        choices=('auto', 'none', 'mirrored', 'multi_worker_mirrored', 'parameter_server'),
        why='the cluster and --num_replicas leave one choice that makes sense',
    )
    eval_strategy: str = _device(
        'none',
        'How an evaluation is distributed.',
        choices=('none', 'mirrored'),
        why='replicas make an evaluation faster, and do not change its result',
    )
    num_replicas: int = _device(
        1,
        'Replicas in each process: on its GPUs, or on logical CPUs if it has no GPU.',
        least=1,
        why='more than one device has to be asked for',
    )
    intra_op_threads: int = _device(
        0,
        "Threads of one operation. 0: TensorFlow's choice.",
        least=0,
        last_counts=True,
        why='TensorFlow takes one for each core; run_local_cluster.sh divides the cores among its tasks',
    )
    inter_op_threads: int = _device(
        0,
        "Operations that run at the same time. 0: TensorFlow's choice, but at least 4 in a synchronous worker.",
        least=0,
        why='TensorFlow takes one for each core',
    )

    all_reduce: str = _device(
        'auto',
        'How synchronous workers add up gradients. auto: in shared memory where all of them are processes of one '
        "machine and run on CPUs, else over the network. network: TensorFlow's gRPC.",
        choices=('auto', 'network'),
        why='shared memory is many times faster than gRPC on one machine',
    )
    allocator: str = _device(
        'auto',
        "The allocator of memory. auto: run_local_cluster.sh takes jemalloc where it is installed; glibc's keeps freed "
        'memory for the next step. system: as the system has it.',
        choices=('auto', 'system'),
        why='steps become faster, and a process takes somewhat more memory',
    )

    cluster_from: str = _cluster(
        'auto',
        'What names the tasks of the cluster and says which of them this process is. auto: TF_CONFIG if it is set, '
        'else the engine that started this process; with neither, the process is alone.',
        choices=tuple(tf_config.SOURCES),
        why='the same command works alone and in every engine',
    )
    roles: str = _cluster(
        '',
        'role:count,... such as chief:1,worker:3,ps:2. Engines number their tasks; the numbers are dealt to the roles '
        'in this order.',
        unset='all are workers',
    )
    base_port: int | None = _cluster(
        None,
        'First port on each address.',
        unset='2222; in Slurm one from 12000 to 31980 that follows from the number of the job',
        why='jobs of Slurm share nodes',
    )
    hosts: str = _cluster(
        '',
        'host or host:port of each rank, separated by commas. Open MPI, MPICH and --cluster_from=hosts need it, '
        'because they do not know the hosts.',
        unset='none',
    )
    rank: int | None = _cluster(
        None, 'Which entry of --hosts this process is, if no engine says so.', unset="the engine's"
    )

    batch_size: int = _training(
        64,
        'Examples of each replica in a step. The global batch is batch_size x replicas.',
        least=1,
        why='a common size that fits every device',
    )
    max_steps: int | None = _training(
        None,
        'Global step at which training ends. Give this or --epochs.',
        least=1,
        unset='--epochs decides',
        excludes=('epochs',),
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
        'run_local_cluster.sh, Slurm and Ray the time counts from the start of the cluster or of the job, and includes '
        'all restarts. Elsewhere (the trainer alone, Kubernetes, Slurm with an object store) each start counts anew.',
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

    eval_steps: int | None = _evaluation(None, 'Batches of one evaluation.', least=1, unset='the whole eval split')
    eval_throttle_secs: int = _evaluation(
        600,
        'In a process that both trains and evaluates: the shortest time between two evaluations. The last checkpoint '
        'is always evaluated.',
        unit='s',
        least=0,
        why='the default of tf.estimator.EvalSpec',
    )
    export: tuple = _evaluation(
        ('best', 'final'),
        'Which SavedModels are written: best, final, both (best,final) or none.',
        why='best is for serving; final is what training ended with',
    )

    save_checkpoints_steps: int | None = _progress(
        None,
        'Steps between checkpoints.',
        least=1,
        unset='by --save_checkpoints_secs',
        excludes=('save_checkpoints_secs',),
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
    track: tuple = _progress(
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
    def most_steps_per_call(self) -> int | None:
        """Of --steps_per_call; None for auto."""
        return None if self.steps_per_call == 'auto' else int(self.steps_per_call)


def parse(argv) -> TrainerConfig:
    """Reads the flags and flagfiles of argv, whose first item is the program's name.

    Raises:
        UsageError: an unknown flag, a value of the wrong kind, a contradiction, a missing flagfile.
        HelpRequested: --help or --helpfull is among them.
    """
    return parse_with_overrides(argv)[0]


def parse_with_overrides(argv) -> tuple[TrainerConfig, tuple[str, ...]]:
    """As `parse`; and a line for each flag that does not count, because another one does."""
    if flags.wants_help(argv[1:]):
        raise HelpRequested(help_text())
    found = flags.parse_with_overrides(TrainerConfig, argv)
    return _resolved(found.config), tuple(map(str, found.overrides))


def _resolved(config: TrainerConfig) -> TrainerConfig:
    config = dataclasses.replace(
        config,
        export=tuple(kind for kind in config.export if kind) or ('none',),
        model_dir=urls.normal(os.path.expanduser(config.model_dir)),
        data_dir=urls.normal(os.path.expanduser(config.data_dir)),
        data_cache_dir=os.path.expanduser(config.data_cache_dir),
        track=tuple(map(str, trackers.check(config.track))),
    )
    config_checks.check(config)
    # Absolute from here on: the job's code may change the current folder.
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
