"""Finds what a folder has of TensorFlow's, by names and sizes. Imports no TensorFlow."""

import glob
import os
import re
from typing import NamedTuple

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import sstable

MODELS = ('saved_model.pb', 'saved_model.pbtxt')
GRAPH = 'graph.pbtxt'
STATE = 'checkpoint'
OWN = ('config.json', 'training.json', 'metrics.jsonl')
_PART = re.compile(r'^(?P<prefix>.+?)(?:\.index|\.meta|\.data-\d{5}-of-\d{5})$')
_EVENTS = 'events.out.tfevents.'
_STATE_LINE = re.compile(
    r'^(?P<field>model_checkpoint_path|all_model_checkpoint_paths):\s*"(?P<path>(?:[^"\\]|\\.)*)"\s*$'
)
_STATE_OTHER = re.compile(r'^(?:all_model_checkpoint_timestamps|last_preserved_timestamp):\s*[-+.\deinfa]+\s*$|^\s*$')
_DEPTH = 3  # of export/NAME/TIME
_NAMES = 6  # that a message names


class Place(NamedTuple):
    """What there is.

    Attributes:
        path: as the user has named it; `root` is the folder.
        only: the checkpoint that the user has named; '' for the whole folder.
        checkpoints: their names, the oldest first; for each name the files.
        named: the checkpoint that the file `checkpoint` names, or ''.
        elsewhere: the path that it names, if that lies in another folder; otherwise ''.
        state_damage: what is wrong with that file, or ''.
        exports: folders of SavedModels, relative to root.
        evaluations: relative folder -> files of events.
        own: the files of a run of this trainer that are there.
        has_keras_folder: `keras/` with a checkpoint, which model_to_estimator makes.
    """

    path: str
    root: str
    only: str
    checkpoints: dict[str, list[str]]
    named: str
    elsewhere: str
    state_damage: str
    graph: str
    exports: list[str]
    evaluations: dict[str, list[str]]
    training_events: list[str]
    own: list[str]
    has_keras_folder: bool


def find(path: str) -> Place:
    """Looks at a folder, a checkpoint's prefix or a file of one.

    Raises:
        UsageError: there is nothing of TensorFlow's.
        OSError: it cannot be read.
    """
    given = os.path.abspath(os.path.expanduser(path))
    if os.path.isdir(given):
        return _of_folder(path, given)
    root, name = os.path.split(given)
    if name in (*MODELS, GRAPH, STATE) and os.path.isfile(given):
        return _of_folder(os.path.dirname(path) or '.', root)
    part = _PART.match(name)
    prefix = part['prefix'] if part else name
    if glob.glob(f'{glob.escape(os.path.join(root, prefix))}.*') or os.path.isfile(given) and sstable.is_table(given):
        place = _of_folder(path, root, prefix)
        if prefix in place.checkpoints:
            return place
    if os.path.exists(given):
        raise UsageError(
            f'{path}: is no file of a checkpoint. Name a model_dir, a SavedModel or the prefix of a checkpoint.'
        )
    raise UsageError(f'{path}: there is no such folder or checkpoint.')


def _of_folder(path: str, root: str, only: str = '') -> Place:
    names = sorted(os.listdir(root))
    named, paths, problem = _state(root) if STATE in names else ('', [], '')
    elsewhere = _elsewhere(root, named)
    named, listed = os.path.basename(named), {os.path.basename(each) for each in paths}
    place = Place(
        path=path,
        root=root,
        only=only,
        checkpoints=_checkpoints(root, names, {only, *listed} - {''}),
        named=named,
        elsewhere=elsewhere,
        state_damage=problem,
        graph=os.path.join(root, GRAPH) if GRAPH in names else '',
        exports=_exports(root),
        evaluations=_evaluations(root),
        training_events=[os.path.join(root, name) for name in names if name.startswith(_EVENTS)],
        own=[name for name in OWN if name in names] if 'config.json' in names else [],
        has_keras_folder=os.path.isfile(os.path.join(root, 'keras', STATE)),
    )
    if not (
        place.checkpoints
        or place.exports
        or place.graph
        or place.training_events
        or place.own
        or place.named
        or problem
    ):
        if not names:
            raise UsageError(f'{path}: is empty.')
        more = f' and {len(names) - _NAMES} more' if len(names) > _NAMES else ''
        raise UsageError(
            f'{path}: holds no checkpoint, no SavedModel, no graph.pbtxt and no events. It holds '
            f'{", ".join(names[:_NAMES])}{more}. Name a model_dir, a SavedModel or the prefix of a checkpoint.'
        )
    return place


def _state(root: str) -> tuple[str, list[str], str]:
    """(the path that the file `checkpoint` names, all that it lists, what is wrong with it)."""
    with open(os.path.join(root, STATE), encoding='utf-8', errors='replace') as file:
        lines = file.read(1 << 20).splitlines()
    named, listed, torn = '', [], not any(lines)
    for line in lines:
        match = _STATE_LINE.match(line)
        if match:
            listed.append(match['path'])
            named = match['path'] if match['field'] == 'model_checkpoint_path' else named
        elif not _STATE_OTHER.match(line):
            torn = True
    if torn or not named:
        how = 'is empty' if not any(lines) else 'was cut short or is not text of TensorFlow'
        return named, listed, f'the file `checkpoint` {how}'
    return named, listed, ''


def _elsewhere(root: str, named: str) -> str:
    """The path that is named, if that is not in this folder: of a run that was copied or moved."""
    folder = os.path.realpath(os.path.dirname(os.path.join(root, named)))
    return named if named and folder != os.path.realpath(root) else ''


def _checkpoints(root: str, names: list[str], wanted: set[str]) -> dict[str, list[str]]:
    """Name -> files. A checkpoint of format V1 is one file, which has the name itself."""
    found: dict[str, list[str]] = {}
    for name in names:
        match = _PART.match(name)
        full = os.path.join(root, name)
        if match and os.path.isfile(full):
            found.setdefault(match['prefix'], []).append(name)
        elif (name in wanted or re.search(r'\.ckpt(?:-\d+)?$', name)) and os.path.isfile(full) and name != STATE:
            found.setdefault(name, []).append(name)
    with_data = {
        name: files
        for name, files in found.items()
        if name in wanted or not all(each.endswith('.meta') for each in files)
    }
    return dict(sorted(with_data.items(), key=lambda item: (step_in(item[0]), item[0])))


def step_in(name: str) -> int:
    match = re.search(r'-(\d+)$', name)
    return int(match[1]) if match else -1


def _exports(root: str) -> list[str]:
    found = []
    for folder, inner, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        depth = 0 if relative == '.' else relative.count(os.sep) + 1
        if set(MODELS) & set(files):
            found.append(relative)
            inner.clear()
        elif depth >= _DEPTH:
            inner.clear()
        inner[:] = sorted(name for name in inner if not name.startswith(('.', 'temp-')))
    return sorted(found)


def _evaluations(root: str) -> dict[str, list[str]]:
    """Estimator writes evaluations to eval/ and eval_NAME/; those of model_to_estimator may be in keras/."""
    found = {}
    for folder in sorted(glob.glob(f'{glob.escape(root)}/eval*') + glob.glob(f'{glob.escape(root)}/keras/eval*')):
        files = sorted(glob.glob(f'{glob.escape(folder)}/{_EVENTS}*'))
        if files:
            found[os.path.relpath(folder, root)] = files
    return found
