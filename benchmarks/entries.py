"""What can be measured: the commands of the trainer and of its peers, grouped as they take turns.

The functions without an underscore that follow `alone` are, or return, a function (steps, plain) -> list of Entry;
`plain` is a Python with TensorFlow 2.15, or ''. The first entry is the base of the ratios.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Callable

from benchmarks import data, measure, restarts, scrapes

EVALUATIONS = 30
TRACKED = os.path.join(tempfile.gettempdir(), 'estimator_trainer-benchmarks-mlflow')
LOOKS_ON = ('--metrics_port=0', f'--track=mlflow:{TRACKED}')  # the flags of what looks on while a run trains
_WARM_UP = 4  # a quarter of the steps


@dataclasses.dataclass(frozen=True)
class Entry:
    """One thing that is measured: a command, as `running.run` takes it."""

    name: str
    command: tuple
    read: Callable | None = None
    env: dict = dataclasses.field(default_factory=dict)
    watch: Callable | None = None


def peer(name, module, *flags, python='', env=None) -> Entry:
    command = (python or sys.executable, '-m', f'benchmarks.peers.{module}', *flags)
    return Entry(name, command, env=env or {})


def ours(name, job, steps, *flags, cluster=()) -> Entry:
    """A run of the trainer. Its speed is that of metrics.jsonl."""
    start = ('cluster', *cluster, '--') if cluster else ()
    command = (sys.executable, '-m', 'estimator_trainer', *start, f'--job=benchmarks.jobs:{job}', '--model_dir=run')
    reports = f'--log_every_steps={min(100, max(1, steps // 20))}'  # 100 is the default
    given = (f'--max_steps={steps}', f'--batch_size={data.BATCHES[job]}', '--export=none', '--eval_steps=1', reports)

    def read(folder):
        return {'steps_per_sec': measure.speed(_lines(pathlib.Path(folder, 'run/metrics.jsonl')), steps // _WARM_UP)}

    return Entry(name, (*command, *given, *flags), read)


def alone(job, script):
    """One process."""

    def entries(steps, plain):
        given = f'--steps={steps}'
        return [
            peer('script on tf.estimator', script, given),
            *([peer('script on tf.estimator, TensorFlow 2.15', script, given, python=plain)] if plain else []),
            ours('ours', job, steps),
            ours('ours, one step a call', job, steps, '--steps_per_call=1'),
            *([peer('PyTorch', 'torch_cnn', given)] if job == 'cnn' else []),
        ]

    return entries


def mirrored(steps, plain):
    return [
        peer('script on tf.estimator, 2 replicas', 'estimator_script', f'--steps={steps}', '--replicas=2'),
        ours('ours, 2 replicas', 'cnn', steps, '--num_replicas=2'),
    ]


def with_flag(flag, job, batch, *loops):
    """Some of our loops without a flag and with it."""

    def entries(steps, plain):
        return [
            ours(', '.join((f'--loop={loop}', *given)), job, steps, f'--batch_size={batch}', f'--loop={loop}', *given)
            for loop in loops
            for given in ((), (flag,))
        ]

    return entries


def two_workers(steps, plain):
    given = (f'--steps={steps}', '--workers=2')
    return [
        peer('script on tf.estimator, a core each', 'estimator_script', *given, '--pinned'),
        peer('script on tf.estimator, threads as they come', 'estimator_script', *given),
        ours('ours', 'cnn', steps, cluster=('--workers=2', '--noevaluator')),
        peer('PyTorch, DistributedDataParallel over gloo', 'torch_cnn', *given),
    ]


def more_workers(steps, plain):
    """The same global batch, alone and shared by workers that share this machine's cores."""

    def cluster(workers):
        return (f'--workers={workers}', '--noevaluator')

    return [
        ours('one process', 'cnn', steps, '--batch_size=256'),
        *(
            ours(f'{number} workers', 'cnn', steps, f'--batch_size={256 // number}', cluster=cluster(number))
            for number in (2, 4, 8)
        ),
    ]


def parameter_servers(steps, plain):
    cluster = ('--workers=2', '--ps=1', '--noevaluator')
    return [
        peer('script on tf.estimator', 'wide_and_deep_script', f'--steps={steps}', '--ps'),
        ours('ours', 'wide_and_deep', steps, cluster=cluster),
    ]


def keras_fit(model):
    def entries(steps, plain):
        given = (f'--steps={steps}', f'--model={model}')
        several = '--steps_per_execution=50'
        return [
            peer('Keras 2, fit', 'keras_fit', *given, '--keras=2'),
            peer('Keras 2, fit, 50 steps per execution', 'keras_fit', *given, '--keras=2', several),
            peer('Keras 3, fit', 'keras_fit', *given, '--keras=3'),
            peer('Keras 3, fit, 50 steps per execution', 'keras_fit', *given, '--keras=3', several),
            ours('ours, --loop=keras_fit', model, steps, '--loop=keras_fit'),
            ours('ours, one step a call', model, steps, '--loop=keras_fit', '--steps_per_call=1'),
        ]

    return entries


def custom_loop(model):
    def entries(steps, plain):
        return [
            peer('tf.function and gradient tape', 'custom_loop', f'--steps={steps}', f'--model={model}'),
            ours('ours, --loop=custom_loop', model, steps, '--loop=custom_loop'),
            ours('ours, one step a call', model, steps, '--loop=custom_loop', '--steps_per_call=1'),
        ]

    return entries


def start_up(steps, plain):
    """From the command to its end."""
    flags = ('--max_steps=1', f'--batch_size={data.BATCHES["cnn"]}', '--export=none')
    command = (sys.executable, '-m', 'estimator_trainer', '--job=benchmarks.jobs:cnn', '--model_dir=run', *flags)
    return [
        peer('script on tf.estimator', 'estimator_script', '--evaluations=1'),
        Entry('ours', command, read=lambda folder: {}),
        Entry('import tensorflow', (sys.executable, '-c', 'import tensorflow'), read=lambda folder: {}),
    ]


def restart(steps, plain):
    return [
        Entry('cold start', restarts.COLD, read=restarts.read, watch=restarts.watch_start),
        Entry('kill -9 of a worker', restarts.KILLED, read=restarts.read, watch=restarts.watch_restart),
    ]


def evaluation(steps, plain):
    """A step, its checkpoint and its evaluation, again and again in one process."""
    count = f'--evaluations={EVALUATIONS}'
    flags = (f'--max_steps={EVALUATIONS}', '--save_checkpoints_steps=1', '--eval_throttle_secs=0', '--export=none')
    command = (sys.executable, '-m', 'estimator_trainer', '--job=benchmarks.jobs:cnn', '--model_dir=run', *flags)
    return [
        peer('script on tf.estimator, no fixes', 'estimator_script', count, env={'ESTIMATOR_TRAINER_FIXES': '0'}),
        *([peer('the same, TensorFlow 2.15', 'estimator_script', count, python=plain)] if plain else []),
        Entry('ours', command, read=_read_evaluations, watch=_watch_memory),
    ]


def checkpoint(steps, plain):
    """A step, and its checkpoint of 500 MB, again and again."""
    each = ('--save_checkpoints_steps=1', f'--keep_checkpoints={steps + 1}', '--eval_throttle_secs=3600')
    run = ours('ours', 'big', steps, *each)
    return [
        peer('script on tf.estimator', 'checkpoint_script', f'--steps={steps}'),
        dataclasses.replace(run, read=_read_checkpoints),
    ]


def allocator(steps, plain):
    """Speed, and what it costs in memory."""
    return [
        dataclasses.replace(ours(f'--allocator={kind}', 'cnn', steps, f'--allocator={kind}'), watch=_watch_peak)
        for kind in ('system', 'auto')
    ]


def from_arrays(job):
    """Batches that tf.data makes, and those that a step takes out of the arrays itself."""

    def entries(steps, plain):
        runs = {'tf.data': ('--in_memory_mb=0',), 'out of the arrays': ()}
        return [dataclasses.replace(ours(name, job, steps, *flags), watch=_watch_peak) for name, flags in runs.items()]

    return entries


def looked_on(job):
    """What it costs the training that something looks on: scrapes every second, a tracker, and the page."""

    def entries(steps, plain):
        alone, seen = ours('nothing looks on', job, steps), ours('metrics, tracker and page', job, steps, *LOOKS_ON)
        return [
            dataclasses.replace(alone, env={'ESTIMATOR_TRAINER_REPORT': 'off'}),
            dataclasses.replace(seen, env={'ESTIMATOR_TRAINER_REPORT': 'auto'}, watch=scrapes.watch),
        ]

    return entries


def store(steps, plain):
    """A checkpoint of 100 MB every 30 s, which is sent to a store of this machine."""
    here = ours('model_dir in a folder', 'padded', steps, '--save_checkpoints_secs=30')
    return [here, _in_store('model_dir in a store', here)]


def store_end(steps, plain):
    """From SIGTERM to the moment at which the store has the checkpoint that was saved for it."""
    flags = ('--grace_secs=300', '--log_every_steps=10', '--steps_per_call=1')
    return [
        _in_store(f'{mb} MB', ours('', 'padded', steps, f'--param=mb={mb}', *flags), '--stop') for mb in (10, 100, 500)
    ]


def _in_store(name, run, *flags) -> Entry:
    """The same run of the trainer with a model_dir in a store."""

    def read(folder):
        os.symlink(os.path.join(folder, 'scratch', 'run'), os.path.join(folder, 'run'))
        return run.read(folder)

    command = (sys.executable, '-m', 'benchmarks.in_store', *flags, *run.command[3:])
    return Entry(name, command, None if flags else read)


def overhead(model, script):
    """The loop around the model: every batch is the same one."""

    def entries(steps, plain):
        bare = (f'--steps={steps}', f'--model={model}')
        return [
            peer('bare graph in session.run', 'bare_graph', *bare),
            peer('bare graph, 50 steps in a tf.while_loop', 'bare_graph', *bare, '--steps_per_call=50'),
            ours('ours', model, steps, '--param=constant=true'),
            ours('ours, one step a call', model, steps, '--param=constant=true', '--steps_per_call=1'),
            peer('script on tf.estimator', script, f'--steps={steps}', '--constant'),
        ]

    return entries


def _lines(path) -> list[dict]:
    with open(path, encoding='utf-8') as file:
        return [json.loads(line) for line in file if line.endswith('\n')]


def _read_evaluations(folder):
    times = [line['time'] for line in _lines(pathlib.Path(folder, 'run/eval/metrics.jsonl'))]
    return {'evaluation_secs': statistics.median(measure.intervals(times)), 'evaluations': len(times)}


def _read_checkpoints(folder):
    return {'checkpoint_secs': statistics.median(measure.intervals(data.times_of_checkpoints(folder)))}


def _watch_peak(pid, folder, found):
    """The most memory that has been resident."""
    with contextlib.suppress(OSError, StopIteration):
        found['mib_peak'] = _status_mib(pid, 'VmHWM')


def _status_mib(pid, name) -> float:
    """A line of /proc/pid/status, in MiB. Raises StopIteration where the process has ended."""
    lines = pathlib.Path(f'/proc/{pid}/status').read_text(encoding='utf-8').splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def _watch_memory(pid, folder, found):
    """Resident memory of our trainer after 5 evaluations, and whenever it was looked at last."""
    try:
        done = len(_lines(pathlib.Path(folder, 'run/eval/metrics.jsonl')))
        resident = _status_mib(pid, 'VmRSS')
    except (OSError, StopIteration):  # no evaluation yet, or it has just ended
        return
    if done >= 5:
        found.setdefault('mib_after_5', resident)
    if done >= EVALUATIONS:
        found.setdefault('mib_at_end', resident)
