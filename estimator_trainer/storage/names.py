"""What a file of a run is, by its name in the model_dir. Pure."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from estimator_trainer.run_dir import file_names

T = TypeVar('T')

POINTER, TRAINING, STOP = file_names.POINTER, file_names.TRAINING, file_names.STOP
LAST_EVALUATION, PART = file_names.LAST_EVALUATION, file_names.PART
checkpoint_of, twin_of = file_names.checkpoint_of, file_names.twin_of
START = '.start.json'  # names the checkpoint from which all tasks start
LEASE, EVALUATOR_LEASE = '.trainer.lease', '.evaluator.lease'
PROBE = '.probe-'
_JOB = '.job-'
_LONGEST_BYTES = 900  # Amazon and Google take 1024, with the folder of the run
_OF_RUN = 'model.ckpt-'  # what else has such parts is the job's
_SHARD = re.compile(r'[^/]+\.data-\d{5}-of-(\d{5})')
_EXPORT = re.compile(r'(export/[^/]+/\d+)/.+')
_LOCAL = re.compile(
    r'(?:^|/)(?:'
    r'[^/]*\.tmp|\.[^/]*lock|[^/]*\.tempstate[^/]*|temp-(?:\d{10,}|own-[0-9a-f]+)(?:/.*)?'
    r'|[^/]*_temp/part-\d+-of-\d+\.(?:data-\d+-of-\d+|index)(?:\.tempstate\d+)?|tmp_worker_[^/]*/.*|\.probe-[^/]*'
    r')$|^(?:damaged|index|plugins/\.[^/]*)/|^\.(?:trainer|evaluator)\.lease$'
)
_EARLY = (  # a resumed run looks at these beside the checkpoint
    file_names.CONFIG,
    file_names.EXAMPLES,
    file_names.GRAPH,
    file_names.METRICS,
)
_LATE = (file_names.EVALUATIONS, STOP, LAST_EVALUATION, TRAINING)


def is_of_tensorboard(name: str) -> bool:
    """Whether it is a file of events."""
    return '.tfevents.' in name


def record_of(job: str) -> str:
    """The object in which an engine keeps what it knows of a job, such as 'slurm-17'. It is no part of the run."""
    return f'{_JOB}{job}.json'


def is_mirrored(name: str) -> bool:
    """Not what is unfinished, a lock, damaged, or made again from the rest; nor an engine's."""
    return not (_LOCAL.search(name) or name.startswith(_JOB))


def why_unfit(name: str) -> str | None:
    """Why no object can have the name."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return 'its name is not UTF-8'
    if any(character < ' ' or character == '\x7f' for character in name):
        return 'its name has a control character'
    return f'its name has more than {_LONGEST_BYTES} bytes' if size > _LONGEST_BYTES else None


def is_of_run(checkpoint: str) -> bool:
    """Whether the trainer saves checkpoints of such a name, or the mirror does. Others are the job's."""
    return checkpoint.startswith(_OF_RUN)


def with_data(files: Iterable[str]) -> set[str]:
    """The checkpoints of which the files have data. Without any, `words.index` is no part of a checkpoint."""
    return {name.rpartition('.')[0] for name in files if _SHARD.fullmatch(name)}


def export_of(name: str) -> str | None:
    """The SavedModel that a file is a part of: 'export/best/1700/variables/x' -> 'export/best/1700'."""
    match = _EXPORT.fullmatch(name)
    return match[1] if match else None


def is_export(unit: str) -> bool:
    return '/' in unit


def unit_of(name: str) -> str | None:
    """The checkpoint or the SavedModel: what is readable as a whole or not at all."""
    return checkpoint_of(name) or export_of(name)


def is_last_export(name: str, known: Iterable[str], local: Iterable[str]) -> bool:
    """Whether the file is of a SavedModel that is known, or names one, and no other one of its folder is here."""
    unit, folder = export_of(name), '/'.join(name.split('/')[:2])
    if not unit and name != file_names.BEST_EXPORT:
        return False
    if unit and not any(is_last_of_unit(each) for each in known if export_of(each) == unit):
        return False
    others = {export_of(each) for each in local if is_last_of_unit(each)} - {unit, None}
    return not any(other and other.startswith(f'{folder}/') for other in others)


def is_last_of_unit(name: str) -> bool:
    """Whether the file is the one without which nobody takes its checkpoint or SavedModel for one."""
    return (
        bool(checkpoint_of(name))
        and name.endswith('.index')
        or bool(export_of(name) and name.rpartition('/')[2] in file_names.SAVED_MODEL)
    )


def is_whole(unit: str, members: Collection[str]) -> bool:
    """Whether these files of a checkpoint or SavedModel make one."""
    if not any(is_last_of_unit(name) for name in members):
        return False
    shards = [match[1] for match in map(_SHARD.fullmatch, members) if match]
    return is_export(unit) or bool(shards) and all(int(count) == len(shards) for count in shards)


def step_of(checkpoint: str) -> int:
    """The global step in the name of a checkpoint; -1: the name has no step."""
    step = file_names.step_of(checkpoint)
    return -1 if step is None else step


def is_early(name: str) -> bool:
    """Whether the file goes before the pointer: a run without it would not resume as it was."""
    return name in _EARLY


def stands_alone(name: str) -> bool:
    """Whether the file names nothing, and nothing goes with it: the run in the store is whole without it."""
    return not (unit_of(name) or is_early(name) or is_read_first(name) or name in (POINTER, START))


def late_rank(name: str) -> int:
    """Among the files that go after all checkpoints and SavedModels: what names others comes later."""
    if name.startswith('export/'):
        return 0  # best.json
    return 2 + _LATE.index(name) if name in _LATE else 1


def is_read_first(name: str) -> bool:
    """Whether the file may name others. Those are read after it, so that they are there."""
    return name in _LATE or name.startswith('export/') and export_of(name) is None


def is_log(name: str) -> bool:
    """Whether the file grows for as long as the run lives."""
    return name.endswith('.jsonl')


def started_from(start: bytes) -> str | None:
    """The checkpoint that the content of `.start.json` names; None: training starts at step 0."""
    try:
        return json.loads(start)['checkpoint']
    except (ValueError, KeyError, TypeError):
        return None


def named_by(pointer: bytes) -> str | None:
    """The checkpoint that the content of the file `checkpoint` names, without its folder."""
    return file_names.pointer(pointer.decode(errors='replace')).name or None


def pointer_to_last(checkpoints: Sequence[str]) -> bytes:
    """The content of a file `checkpoint` that lists these checkpoints, and names the last of them."""
    listed = ''.join(f'all_model_checkpoint_paths: "{checkpoint}"\n' for checkpoint in checkpoints)
    return f'model_checkpoint_path: "{checkpoints[-1]}"\n{listed}'.encode()


def pointer_to(checkpoint: str, pointer: bytes) -> bytes:
    """The content of a file `checkpoint` that names this checkpoint in place of the one that it names. Folders are
    left out: the store has others."""
    old, lines = named_by(pointer), []
    for line in pointer.decode(errors='replace').splitlines():
        match = file_names.STATE_LINE.fullmatch(line)
        if match:
            name = match['path'].rpartition('/')[2]
            line = f'{match["field"]}: "{checkpoint if name == old else name}"'
        lines.append(line)
    return '\n'.join(lines).encode() + b'\n'


def owed_by(last: bytes) -> str | None:
    """The checkpoint whose evaluation is not done, by the content of eval/last.json."""
    try:
        entry = json.loads(last)
        return None if entry['done'] else entry['checkpoint']
    except (ValueError, KeyError, TypeError):
        return None


def is_fetched(name: str, checkpoints: Collection[str | None]) -> bool:
    """Whether a run that goes on needs the file: all but other checkpoints of the run than these, and what only
    TensorBoard reads."""
    if not is_mirrored(name) or name == START or is_of_tensorboard(name):
        return False
    checkpoint = checkpoint_of(name)
    return checkpoint is None or checkpoint in checkpoints or not is_of_run(checkpoint)


def of_files(objects: Mapping[str, T]) -> dict[str, T]:
    """Without the objects that cannot be files below a folder: markers of folders, and those with .. in their names."""
    folders = {folder for name in objects for folder in _above(name)}
    return {
        name: value
        for name, value in objects.items()
        if name not in folders and not {'', '.', '..'} & set(name.split('/'))
    }


def _above(name: str) -> Iterator[str]:
    while '/' in name:
        name = name.rpartition('/')[0]
        yield name
