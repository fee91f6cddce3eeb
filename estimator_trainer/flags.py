"""Every flag of the trainer, by group. The README's table of flags is tested against this list."""

from absl import flags

import tf_config

FLAGS = flags.FlagValues()
GROUPS = {}


def _define(group, define, name, *args, **kwargs):
    define(name, *args, flag_values=FLAGS, **kwargs)
    GROUPS.setdefault(group, []).append(name)


def _group(title):
    """Definers for one group: text, whole, number, switch, choice and several."""
    kinds = dict(
        text=flags.DEFINE_string,
        whole=flags.DEFINE_integer,
        number=flags.DEFINE_float,
        switch=flags.DEFINE_bool,
        choice=flags.DEFINE_enum,
        several=flags.DEFINE_multi_string,
        listed=flags.DEFINE_list,
    )
    return {
        kind: (lambda name, *args, _define_one=one, **kwargs: _define(title, _define_one, name, *args, **kwargs))
        for kind, one in kinds.items()
    }


_job = _group('What is trained')
_job['text']('job', 'mnist', 'A built-in job (mnist, fashion_mnist) or package.module:attribute.')
_job['several']('param', [], 'name=value: overrides a param of the job. Repeatable.')
_job['choice'](
    'loop',
    'estimator',
    ['estimator', 'keras_fit', 'custom_loop'],
    'What trains it. The last two need a job with a make_model.',
)
_job['choice'](
    'stepping',
    'dataset',
    ['dataset', 'iterator', 'epoch_function'],
    'Of custom_loop: each step from Python, several, or a whole epoch in one tf.function.',
)
_job['text'](
    'model_dir',
    '',
    'Folder of checkpoints, metrics and exports. Required. The same command in the same folder resumes.',
)
_job['switch'](
    'allow_config_change', False, 'Resume although config.json in the model_dir differs in something that matters.'
)

_data = _group('Data')
_data['text']('dataset', 'mnist_5k', 'A TFDS image classification set, or mnist_5k, which is embedded.')
_data['text']('data_dir', '', "TFDS's folder of prepared data sets. Default: ~/tensorflow_datasets.")
_data['whole'](
    'in_memory_mb',
    1024,
    'A training split of up to so many MiB, decoded, is held in memory '
    'and read in an exact order; a larger one is streamed.',
)

_where = _group('Devices')
_where['choice'](
    'strategy',
    'auto',
    ['auto', 'none', 'mirrored', 'multi_worker_mirrored', 'parameter_server'],
    'auto: by TF_CONFIG and --num_replicas.',
)
_where['choice']('eval_strategy', 'none', ['none', 'mirrored'], 'Devices of an evaluation.')
_where['whole']('num_replicas', 1, 'Replicas of one process: its GPUs, or logical CPUs where it has none.')
_where['whole']('intra_op_threads', 0, "Threads of one operation. 0: TensorFlow's choice.")
_where['whole']('inter_op_threads', 0, "Operations at a time. 0: TensorFlow's choice.")

_cluster = _group('Cluster')
_cluster['choice'](
    'cluster_from',
    'auto',
    list(tf_config.SOURCES),
    'Who says which tasks there are, and which one this is. auto: TF_CONFIG if it is set, '
    'else the engine that started this process, else a process of its own.',
)
_cluster['text'](
    'roles',
    '',
    'role:count,...: under an engine, ranks are dealt to roles in this order, '
    'such as chief:1,worker:3,ps:2. Default: all are workers.',
)
_cluster['whole'](
    'base_port',
    None,
    'First port on each address. Default: 2222, and under Slurm, where '
    'jobs share nodes, one from 12000 to 31980 that goes by the job.',
)
_cluster['text'](
    'hosts',
    '',
    'host or host:port of each rank, with commas between: for Open MPI, MPICH and '
    '--cluster_from=hosts, which do not know them.',
)
_cluster['whole']('rank', None, 'Which entry of --hosts this process is, where no engine says so.')

_length = _group('Training')
_length['whole']('batch_size', 64, 'Per replica. Global batch = batch_size x replicas.')
_length['whole']('max_steps', None, 'Global step at which training ends.')
_length['number']('epochs', None, 'Or: passes over the training split after which it ends.')
_length['whole'](
    'max_secs',
    None,
    'Training stops after so many seconds of wall time, restarts included. '
    'The last step is saved, evaluated and exported.',
)
_length['whole']('seed', 1, 'Of initial weights and of the order of the data.')
_length['switch']('deterministic', False, 'Bit-for-bit repeatable, at some cost in speed.')

_stopping = _group('Early stopping')
_stopping['text']('stop_metric', '', 'Stop when this metric of the evaluation no longer improves. Default: never.')
_stopping['choice']('stop_mode', 'min', ['min', 'max'], 'Whether lower or higher is better.')
_stopping['whole']('stop_patience', 3, 'Evaluations in a row without an improvement.')
_stopping['number']('stop_min_delta', 0.0, 'What counts as an improvement: more than this.')

_bounds = _group('Bounds, in seconds')
_bounds['whole'](
    'join_timeout_secs', 60, "For the tasks of a cluster to find each other, and the chief's files in the model_dir."
)
_bounds['whole']('lost_peer_secs', 30, 'A task that is silent for so long is lost, and the others end.')
_bounds['whole'](
    'step_timeout_secs',
    1800,
    'For one step, a checkpoint included, and for the chief to verify the newest checkpoint. 0: no bound.',
)
_bounds['whole']('grace_secs', 25, 'From SIGTERM or Ctrl-C to the end, a checkpoint included.')

_evaluation = _group('Evaluation and export')
_evaluation['whole']('eval_steps', None, 'Batches of one evaluation. Default: the whole eval split.')
_evaluation['whole'](
    'eval_throttle_secs',
    600,
    'Where the training process evaluates as well: at most '
    'one evaluation in so many seconds. The last checkpoint is always evaluated.',
)
_evaluation['listed']('export', ['best', 'final'], 'best, final, both (best,final) or none.')

_files = _group('Checkpoints and progress')
_files['whole']('save_checkpoints_steps', None, 'Steps between checkpoints. Default: by time.')
_files['whole']('save_checkpoints_secs', None, 'Seconds between checkpoints. Default: 600.')
_files['whole'](
    'save_checkpoints_epochs',
    None,
    'Of keras_fit and custom_loop: epochs between checkpoints. Default: 1 for keras_fit, which saves by time as well.',
)
_files['whole']('keep_checkpoints', 5, 'Newest checkpoints kept. 0: all.')
_files['whole']('save_summary_steps', 100, 'Steps between TensorBoard summaries. 0: none.')
_files['whole']('log_every_steps', 100, 'Steps between lines of progress and of metrics.jsonl.')
_files['choice'](
    'progress', 'auto', ['auto', 'on', 'off'], 'auto: a bar on a terminal, lines elsewhere; on: a bar; off: lines.'
)
_files['switch']('dry_run', False, 'Print the resolved run and the cluster, and stop.')
