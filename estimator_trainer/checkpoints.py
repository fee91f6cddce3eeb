"""Which checkpoint a run goes on from: the newest that can be read, all of it."""

import glob
import hashlib
import logging
import os
import re
import shutil
import time
from typing import Optional

import tensorflow as tf

_log = logging.getLogger('estimator_trainer')
_FOLDER = 'damaged'
UNREADABLE = (tf.errors.OpError, ValueError, RuntimeError, IndexError)  # what a damaged one raises
_VISIBLE_SECS = 30  # that a remote file system may take to show what another machine has written
_LOOK_SECS = 0.5
_STEP = 'global_step'  # in Estimator's checkpoints
_STEP_OF_OBJECTS = 'global_step/.ATTRIBUTES/VARIABLE_VALUE'  # in those of tf.train.Checkpoint


class NoGoodCheckpoint(ValueError):
    """There are checkpoints, and none can be read."""


def last_step(model_dir: str) -> int:
    """The global step of the newest checkpoint, 0 where there is none."""
    checkpoint = newest(model_dir)
    return step_of(checkpoint) if checkpoint else 0


def newest(model_dir: str, at_least: Optional[int] = None) -> Optional[str]:
    """The prefix of the checkpoint that the file `checkpoint` names; None where it names none.

    A remote file system may show the file `checkpoint` before it shows the checkpoint. This waits for
    what is named, for at most _VISIBLE_SECS.

    Args:
        at_least: the step of a checkpoint that another process has saved; `checkpoint` itself may be
            an older version until then.
    """
    began, said = time.monotonic(), False
    while True:
        found, named = tf.train.latest_checkpoint(model_dir), _named(model_dir)
        late = bool(named) and not found
        if not late and (at_least is None or (found and _step_of(found) >= at_least)):
            return found
        what = f'{os.path.basename(named)}, which the file `checkpoint` names,' if late else f'of step {at_least}'
        if time.monotonic() - began >= _VISIBLE_SECS:
            _log.warning('WARNING: checkpoint %s has not appeared in %s within %g s: goes on with %s', what,
                         model_dir, _VISIBLE_SECS, os.path.basename(found) if found else 'no checkpoint')
            return found
        if not said:
            _log.info('waits for checkpoint %s to appear in %s, at most %g s', what, model_dir, _VISIBLE_SECS)
            said = True
        time.sleep(_LOOK_SECS)


def digest(prefix: str) -> str:
    """Tells the weights of a checkpoint from others: a hash of its index, which has their checksums.

    '' where there is no index.
    """
    try:
        with open(f'{prefix}.index', 'rb') as file:
            return hashlib.sha256(file.read()).hexdigest()[:16]
    except FileNotFoundError:
        return ''


def step_of(prefix: str) -> int:
    """The global step of a checkpoint of any loop.

    Raises:
        tf.errors.OpError, ValueError: it cannot be read, or has none.
    """
    return int(tf.train.load_variable(prefix, _STEP_OF_OBJECTS if is_of_objects(prefix) else _STEP))


def is_of_objects(prefix: str) -> bool:
    """Whether a checkpoint is tf.train.Checkpoint's, as keras_fit and custom_loop write it, and not
    Estimator's."""
    return tf.train.load_checkpoint(prefix).has_tensor(_STEP_OF_OBJECTS)


def set_aside_damaged(model_dir: str) -> None:
    """Moves a newest checkpoint that cannot be read to `damaged/`, until one can.

    The one that the file `checkpoint` names comes first, so that a user may go back by editing it;
    then the others, newest first. Every tensor is read, which verifies its checksum.

    Raises:
        NoGoodCheckpoint: none is left.
    """
    path = _named(model_dir)
    named = path and os.path.join(model_dir, os.path.basename(path))  # the folder may have been moved
    prefixes = _prefixes(model_dir)
    if named and named not in prefixes:
        prefixes.append(named)  # its index is missing
    prefixes.sort(key=_step_of)
    if named:
        prefixes = prefixes[:prefixes.index(named) + 1]
    damaged = []
    while prefixes:
        problem = damage(prefixes[-1])
        if problem is None:
            break
        damaged.append(prefixes[-1])
        _move(model_dir, prefixes.pop())
        _log.warning('WARNING: checkpoint %s cannot be read (%s): moved to %s',
                     os.path.basename(damaged[-1]), problem, os.path.join(model_dir, _FOLDER))
    if not prefixes and (damaged or _prefixes(os.path.join(model_dir, _FOLDER))):
        raise NoGoodCheckpoint(
            f'no checkpoint of {model_dir} can be read; what is left of them is in '
            f'{os.path.join(model_dir, _FOLDER)}. Bring one back, or use another --model_dir.')
    if prefixes and path != prefixes[-1]:
        tf.compat.v1.train.update_checkpoint_state(  # with a relative folder it would write other names
            os.path.abspath(model_dir), os.path.basename(prefixes[-1]),
            [os.path.basename(prefix) for prefix in prefixes])
        _log.info('goes on from checkpoint %s', os.path.basename(prefixes[-1]))


def remove_unfinished(model_dir: str) -> None:
    """Removes what tasks that were killed within a checkpoint have left. Nobody may be saving.

    An index is written last: data without one were never a checkpoint.
    """
    start = os.path.join(glob.escape(model_dir), 'model.ckpt-')
    for suffix in ('.data-', '.index.tempstate'):
        for path in glob.glob(f'{start}*{suffix}*'):
            if not os.path.exists(f'{path.rpartition(suffix)[0]}.index'):
                os.remove(path)
    for folder in glob.glob(f'{start}*_temp'):
        shutil.rmtree(folder)


def damage(prefix: str) -> Optional[str]:
    """What keeps a checkpoint from being read, in one line; None if nothing does."""
    try:
        reader = tf.train.load_checkpoint(prefix)
        names = reader.get_variable_to_shape_map()
        for name in names:
            reader.get_tensor(name)
    except UNREADABLE as error:
        return str(error).strip().splitlines()[0]
    return None if _STEP in names or _STEP_OF_OBJECTS in names else 'it has no global_step'


def _named(model_dir) -> Optional[str]:
    try:
        state = tf.train.get_checkpoint_state(model_dir)
    except (tf.errors.OpError, ValueError):
        return None
    return state.model_checkpoint_path if state and state.model_checkpoint_path else None


def _prefixes(model_dir) -> list:
    pattern = os.path.join(glob.escape(model_dir), 'model.ckpt-*.index')
    return [path[:-len('.index')] for path in glob.glob(pattern)
            if _step_of(path[:-len('.index')]) >= 0]


def _step_of(prefix) -> int:
    match = re.search(r'-(\d+)$', prefix)
    return int(match.group(1)) if match else -1


def _move(model_dir, prefix) -> None:
    folder = os.path.join(model_dir, _FOLDER)
    os.makedirs(folder, exist_ok=True)
    for path in glob.glob(glob.escape(prefix) + '.*'):
        os.replace(path, os.path.join(folder, os.path.basename(path)))
