"""The flags that say what is trained, on which data, and on which devices and tasks. Imports no TensorFlow."""

import dataclasses
import functools
import os

import tf_config
from estimator_trainer.config import urls
from estimator_trainer.config.declaration import REQUIRED, flag

_job = functools.partial(flag, group='What is trained')
_data = functools.partial(flag, group='Data')
_device = functools.partial(flag, group='Devices')
_cluster = functools.partial(flag, group='Cluster')

LOOPS = {  # of --loop -> its training.trainer.Trainer, whose module is imported when it trains
    'estimator': 'estimator_trainer.training.estimator:EstimatorTrainer',
    'keras_fit': 'estimator_trainer.training.keras_fit:KerasFitTrainer',
    'custom_loop': 'estimator_trainer.training.custom_loop:CustomLoopTrainer',
}

JOB_FILE_SUFFIX = '.pkl'  # of a value of --job that names a file, see jobs/job_file.py


@dataclasses.dataclass(frozen=True)
class JobFlags:
    """The first half of trainer_config.TrainerConfig, which holds all flags of a run."""

    job: str = _job(
        'mnist',
        'A built-in job (mnist, fashion_mnist, wide_and_deep), package.module:attribute of your own, or the file '
        'job.pkl of a run that `train` of Python has started; to load such a file is to run it.',
        why='its data need no download',
    )
    param: tuple[str, ...] = _job((), 'name=value: overrides a param of the job. Repeatable.', repeated=True)
    loop: str = _job(
        'estimator',
        'What trains the job. keras_fit and custom_loop need a job with make_model.',
        choices=tuple(LOOPS),
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
        unset=REQUIRED,
    )
    scratch_dir: str = _job(
        '',
        'For a --model_dir with a URL: the folder of this machine in which the run works. What it writes there is sent '
        'to the store.',
        unset='a folder of that URL in ~/.cache/estimator_trainer',
    )
    allow_config_change: bool = _job(
        False,
        'Resume although config.json in the model_dir differs in job, loop, params, global batch, seed, precision or '
        'data set. With another global batch --epochs count the examples that have been trained.',
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
        'compressed files. Steps take batches themselves from arrays (array_batches) of at most this size.',
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
        choices=('auto', 'tfrecord', 'csv', 'parquet', 'array_record'),  # FORMATS of data.files, which imports config
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
        'Replicas in each process: on its GPUs, or on logical CPUs if it has no GPU. auto: as many as it sees GPUs, '
        'and 1 if it sees none or trains with parameter servers.',
        least=1,
        auto=True,
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
        "Operations that run at the same time. 0: TensorFlow's choice, but at least 4 in a synchronous worker, and 1 "
        'where steps are short.',
        least=0,
        why='TensorFlow takes one for each core',
    )

    xla: bool = _device(
        False,
        'For keras_fit and custom_loop: XLA compiles the forward and backward pass of a batch. The weights differ from '
        'those without it by rounding.',
        why='compiling takes seconds, and on CPUs many steps become slower',
    )
    all_reduce: str = _device(
        'auto',
        'How synchronous workers add up gradients. auto: in shared memory where all of them are processes of one '
        "machine and run on CPUs, by NCCL on GPUs, else over the network. network: TensorFlow's gRPC.",
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
    secure: str = _cluster(
        'auto',
        "Lets only tasks of this run reach TensorFlow's ports: each task has a network of its own, and talks to the "
        'others by mutual TLS. auto: if tasks are on several machines and it can work, else a line says why not; off; '
        'required: or the task does not start.',
        choices=('auto', 'off', 'required'),
        why="whoever reaches TensorFlow's port runs code in the job; see security.md",
    )
    secure_key_file: str = _cluster(
        '',
        'The key of the run for --secure, mode 0600, for machines that share no model_dir: the same file on each. The '
        'chief makes it if it is not there.',
        unset='.secure.key in the model_dir',
    )

    @property
    def most_steps_per_call(self) -> int | None:
        """The number in --steps_per_call; None for auto."""
        return None if self.steps_per_call == 'auto' else int(self.steps_per_call)

    @property
    def job_is_file(self) -> bool:
        """Whether --job names a file."""
        return self.job.endswith(JOB_FILE_SUFFIX)

    @property
    def short_job(self) -> str:
        """--job for the log: of a file its name alone, because `train` of Python writes it into a temporary folder."""
        return os.path.basename(self.job) if self.job_is_file else self.job
