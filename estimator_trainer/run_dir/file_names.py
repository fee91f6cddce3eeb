"""The names of a run's files in its model_dir, and what the name of a checkpoint says. Pure."""

import re
from typing import NamedTuple

CONFIG = 'config.json'
TRAINING = 'training.json'
STATUS = 'status.json'
REPORT = 'report.json'
EARLIER_STARTS = 'earlier_starts.json'  # the starts of the supervisor before the last one
EXAMPLES = 'examples.json'  # how many examples were read before each checkpoint, where its step does not say it
METRICS = 'metrics.jsonl'
EVALUATIONS = 'eval/metrics.jsonl'
STOP = 'eval/stop.json'  # the decision to stop early
LAST_EVALUATION = 'eval/last.json'  # the checkpoint that was evaluated last, and what of that is done
WRONG_ANSWERS = 'eval/wrong.json'  # examples of a --dataset that the last checkpoint takes for another class
BEST_EXPORT = 'export/best/best.json'
POINTER = 'checkpoint'  # names the checkpoint to go on from
GRAPH = 'graph.pbtxt'
DAMAGED = 'damaged'  # the folder of checkpoints that the trainer has set aside
TRAINER_LOCK = '.trainer.lock'
SUPERVISOR_LOCK = '.cluster.lock'
RUN_KEY = '.secure.key'  # signs the certificates of the tasks, by --secure
EVALUATOR_LOCK = 'eval/.lock'
SWEEP, STUDY, SWEEP_LOCK = 'sweep.json', 'study.db', '.sweep.lock'  # in the folder of a sweep
SWEEP_PAGE = 'sweep.html'
SAVED_MODEL = ('saved_model.pb', 'saved_model.pbtxt')  # one of them is in each SavedModel
EVENTS = 'events.out.tfevents.'  # how the name of a file of events begins

PART = re.compile(r'([^/]+)\.(?:index|meta|data-\d{5}-of-\d{5})')  # a file of a checkpoint of format V2
V1 = re.compile(r'(model\.ckpt-\d+)(?:-\d{5}-of-\d{5})?')  # a file of a checkpoint of format V1
_V1_SHARDS = re.compile(r'-\?{5}-of-\d{5}$')  # how the file `checkpoint` names one of several files
STATE_LINE = re.compile(
    r'(?P<field>model_checkpoint_path|all_model_checkpoint_paths):\s*"(?P<path>(?:[^"\\]|\\.)*)"\s*'
)
_OTHER_STATE_LINE = re.compile(r'(?:all_model_checkpoint_timestamps|last_preserved_timestamp):\s*[-+.\deinfa]+\s*|\s*')
_STEP = re.compile(r'-(\d+)$')


def step_of(checkpoint: str) -> int | None:
    """The global step in the name of a checkpoint: 'model.ckpt-20' -> 20. None: the name has no step."""
    match = _STEP.search(checkpoint)
    return int(match[1]) if match else None


def twin_of(checkpoint: str) -> str:
    """The second name of a checkpoint in a store, for the same step: 'model.ckpt-20' -> 'model.ckpt-again-20'."""
    return _STEP.sub(r'-again-\1', checkpoint) if step_of(checkpoint) is not None else f'{checkpoint}-again'


def checkpoint_of(name: str) -> str | None:
    """The checkpoint of format V2 that a file is a part of: 'model.ckpt-20.index' -> 'model.ckpt-20'. None: of none."""
    match = PART.fullmatch(name)
    return match[1] if match else None


def without_shards(named: str) -> str:
    """The checkpoint of a name in the file `checkpoint`: 'model.ckpt-10-?????-of-00002' -> 'model.ckpt-10'."""
    return _V1_SHARDS.sub('', named)


class Pointer(NamedTuple):
    """What the file `checkpoint` says.

    Attributes:
        path: the checkpoint that it names, as a path that may lie in another folder; '': it names none.
        listed: the paths of all checkpoints that it lists, in its order.
        is_torn: some of it is not text that TensorFlow writes there, or nothing is.
    """

    path: str
    listed: tuple[str, ...]
    is_torn: bool

    @property
    def name(self) -> str:
        """The checkpoint without its folder; '': none."""
        return without_shards(self.path).rpartition('/')[2]


def pointer(text: str) -> Pointer:
    """Parses the file `checkpoint`, such as

    model_checkpoint_path: "model.ckpt-1200"
    """
    lines = text.splitlines()
    path, listed, is_torn = '', [], not any(lines)
    for line in lines:
        match = STATE_LINE.fullmatch(line)
        if match:
            listed.append(match['path'])
            path = match['path'] if match['field'] == 'model_checkpoint_path' else path
        elif not _OTHER_STATE_LINE.fullmatch(line):
            is_torn = True
    return Pointer(path, tuple(listed), is_torn)
