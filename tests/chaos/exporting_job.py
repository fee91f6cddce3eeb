"""A job that comes to harm within the evaluation of a checkpoint: `--job=tests.chaos.exporting_job:job`.

The environment variable STRIKE, 'MOMENT LINES ACTION', says what happens, once in the folder of a case, when
`eval/metrics.jsonl` has LINES lines (0: however many) and the process that evaluates comes to MOMENT.
"""

import json
import os
import signal
import sys

from estimator_trainer.jobs import Job, KerasParts
from tests.chaos import faults
from tests.chaos.job import input_fn, points  # noqa: F401

STRIKE = 'CHAOS_STRIKE'

# Moments, in this order.
LINE = 'line'  # the evaluation is computed; its line is about to be written
DECISION = 'decision'  # to stop early; about to be written
BEST = 'best'  # within the export
BEST_JSON = 'best.json'  # the SavedModel is there; best.json is about to be written
FINAL = 'final'  # within the export
DONE = 'done'  # all exports are there; about to be noted

KILL, FILL, RAISE = 'kill', 'fill', 'raise'
_RENAMED = {'stop.json': DECISION, 'best.json': BEST_JSON}


def _came_to(moment: str, model_dir: str) -> None:
    wanted, lines, action = os.environ[STRIKE].split()
    there = _count_lines(os.path.join(model_dir, 'eval', 'metrics.jsonl'))
    if moment != wanted or int(lines) not in (0, there):
        return
    try:
        os.close(os.open(os.path.join(os.environ[faults.FOLDER], 'struck'), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if action == KILL:
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == FILL:
        fill(os.path.join(os.path.dirname(model_dir), 'ballast'))
    else:
        raise KeyError('the job fails, as it was told')


def fill(path: str) -> None:
    """Fills the disk, to the last byte."""
    with open(path, 'wb', buffering=0) as file:
        for size in (1 << 16, 512, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                pass


def _count_lines(path) -> int:
    try:
        with open(path, encoding='utf-8') as file:
            return len(file.readlines())
    except FileNotFoundError:
        return 0


def _audit(event, args):
    """Python calls this before it opens or renames a file."""
    if event == 'open' and str(args[0]).endswith('eval/metrics.jsonl') and (args[2] or 0) & os.O_APPEND:
        _came_to(LINE, os.path.dirname(os.path.dirname(args[0])))
    if event != 'os.rename':
        return
    source, target = str(args[0]), str(args[1])
    folder, name = os.path.split(target)
    if name in _RENAMED:
        _came_to(_RENAMED[name], os.path.dirname(folder if name == 'stop.json' else os.path.dirname(folder)))
    elif name == 'last.json':
        with open(source, encoding='utf-8') as file:
            if json.load(file)['done']:
                _came_to(DONE, os.path.dirname(folder))


if STRIKE in os.environ and '--dry_run' not in sys.argv:
    sys.addaudithook(_audit)


def _export_path() -> str:
    """Of the exporter that calls."""
    frame = sys._getframe()
    while frame is not None and 'export_path' not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals['export_path']


def serving_input_fn(params):
    import tensorflow as tf

    if STRIKE in os.environ:
        folder, name = os.path.split(_export_path())
        _came_to(name, os.path.dirname(folder))
    xy = tf.compat.v1.placeholder(tf.float32, [None, 2], name='xy')
    return tf.estimator.export.ServingInputReceiver({'xy': xy}, {'xy': xy})


def make_model(params):
    import tensorflow as tf

    xy = tf.keras.Input([2], name='xy')
    hidden = tf.keras.layers.Dense(
        8, activation='relu', kernel_initializer=tf.keras.initializers.GlorotUniform(params['seed'])
    )(xy)
    logits = tf.keras.layers.Dense(2, kernel_initializer=tf.keras.initializers.GlorotUniform(params['seed']))(hidden)
    return tf.keras.Model({'xy': xy}, logits)


def loss(labels, outputs, params):
    import tensorflow as tf

    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)


def make_optimizer(params):
    import tensorflow as tf

    return tf.keras.optimizers.legacy.Adam(0.01)


job = Job(
    make_model=make_model,
    parts=KerasParts(loss=loss, make_optimizer=make_optimizer, predictions=lambda outputs: {'logits': outputs}),
    input_fn=input_fn,
    serving_input_fn=serving_input_fn,
    params={},
    best_metric='loss',  # falls from evaluation to evaluation: each is exported
    best_mode='min',
    num_train_examples=640,
)
