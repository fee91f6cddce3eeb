"""Which checkpoint a run goes on from: the newest whose contents are whole.

Contents that are wrong (cut short, a wrong checksum, a file that is missing) will be wrong tomorrow: such a
checkpoint is set aside. A file that the operating system does not let us read now (permissions, a network
file system that is away, too many open files) is left where it is, and so is what TensorFlow can read.
"""

import hashlib
import logging
import os
import re
import time

import tensorflow as tf

from estimator_trainer.compat.patches import eager_context
from estimator_trainer.run_dir import bundle, checkpoint_errors, checkpoint_state, file_names, removal, v1_checkpoints

_log = logging.getLogger('estimator_trainer')
_OF_CHECKPOINT = removal.Named(r'model\.ckpt-.*\.(?:data-|index\.tempstate).*')
_PART = removal.Named(r'part-\d+-of-\d+\.(?:data-\d+-of-\d+|index)(?:\.tempstate\d+)?')
VISIBLE_SECS = 30  # that a remote file system may take to show what another machine has written
_LOOK_SECS = 0.5
_STEP = 'global_step'  # in Estimator's checkpoints
_STEP_OF_OBJECTS = 'global_step/.ATTRIBUTES/VARIABLE_VALUE'  # in those of tf.train.Checkpoint
_STEP_OF_KERAS = 'estimator_global_step/.ATTRIBUTES/VARIABLE_VALUE'  # in those of model_to_estimator
_STEPS = (_STEP_OF_OBJECTS, _STEP_OF_KERAS, _STEP)
NO_STEP = 'it has no global_step'


class NoGoodCheckpoint(ValueError):
    """There are checkpoints, and none can be read."""


@checkpoint_errors.patient
def latest(model_dir: str) -> str | None:
    """The prefix of the newest checkpoint, which the file `checkpoint` names; None: there is none.

    Raises:
        CannotReadCheckpoint: that file, or the checkpoint's index. tf.train.latest_checkpoint takes it for absent.
    """
    checkpoint_state.check_readable(model_dir)
    prefix: str | None = tf.train.latest_checkpoint(model_dir)
    if prefix is None:
        named = _named(model_dir)
        if named:
            checkpoint_errors.exists(f'{named}.index')
    return prefix


def last_step(model_dir: str) -> int:
    """The global step of the newest checkpoint, 0 where there is none.

    Raises:
        CannotReadCheckpoint: it cannot be read now.
    """
    checkpoint = newest(model_dir)
    return step_of(checkpoint) if checkpoint else 0


def newest(model_dir: str, at_least: int | None = None) -> str | None:
    """The prefix of the checkpoint that the file `checkpoint` names; None where it names none.

    A remote file system may show the file `checkpoint` before it shows the checkpoint. This waits for
    what is named, for at most VISIBLE_SECS.

    Args:
        at_least: the step of a checkpoint that another process has saved; `checkpoint` itself may be
            an older version until then.

    Raises:
        CannotReadCheckpoint: it cannot be read now.
    """
    began, said = time.monotonic(), False
    while True:
        prefix, named = latest(model_dir), _named(model_dir)
        late = bool(named) and not prefix
        if not late and (at_least is None or (prefix and _step_in_name(prefix) >= at_least)):
            return prefix
        what = f'{os.path.basename(named or "")}, which the file `checkpoint` names,' if late else f'of step {at_least}'
        if time.monotonic() - began >= VISIBLE_SECS:
            _log.warning(
                'WARNING: checkpoint %s has not appeared in %s within %g s: goes on with %s',
                what,
                model_dir,
                VISIBLE_SECS,
                os.path.basename(prefix) if prefix else 'no checkpoint',
            )
            return prefix
        if not said:
            _log.info('waits for checkpoint %s to appear in %s, at most %g s', what, model_dir, VISIBLE_SECS)
            said = True
        time.sleep(_LOOK_SECS)


@checkpoint_errors.patient
def step_of(prefix: str) -> int:
    """The global step of a checkpoint of any loop.

    Raises:
        CannotReadCheckpoint: it cannot be read now.
        tf.errors.OpError, ValueError: it is damaged, or has none.
    """
    try:
        reader = tf.train.load_checkpoint(prefix)
        return int(reader.get_tensor(next((name for name in _STEPS if reader.has_tensor(name)), _STEP)))
    except checkpoint_errors.UNREADABLE as error:
        checkpoint_errors.raise_if_refused(error, prefix)
        raise


def is_of_objects(prefix: str) -> bool:
    """Whether a checkpoint is tf.train.Checkpoint's, as keras_fit and custom_loop write it, and not
    Estimator's."""
    return bool(tf.train.load_checkpoint(prefix).has_tensor(_STEP_OF_OBJECTS))


def digest(prefix: str) -> str:
    """The digest of a checkpoint's index, which holds the checksum of every tensor: equal digests are equal weights.

    '' where there is no index.

    Raises:
        OSError: the index cannot be read.
    """
    try:
        with open(f'{prefix}.index', 'rb') as file:
            return hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return ''


def set_aside_damaged(model_dir: str) -> None:
    """Moves a newest checkpoint whose contents are damaged to `damaged/`, until one is whole.

    The one that the file `checkpoint` names comes first, so that a user may go back by editing it;
    then the others, newest first. One of format V1 is written once more in format V2.

    Raises:
        NoGoodCheckpoint: none is left, or the next one is whole and has no global step. That one stays where it is.
        CannotReadCheckpoint: one cannot be read now. It stays where it is.
    """
    path = _named(model_dir)
    named = path and _in_folder(model_dir, path)
    prefixes = _prefixes(model_dir)
    if named and named not in prefixes:
        prefixes.append(named)  # its index is missing, or it is in another folder
    prefixes.sort(key=_step_in_name)
    if named:
        prefixes = prefixes[: prefixes.index(named) + 1]
    damaged = []
    while prefixes:
        problem = _damage_of_any_format(prefixes[-1])
        if problem is None:
            break
        if problem == NO_STEP:
            raise NoGoodCheckpoint(
                f'checkpoint {os.path.basename(prefixes[-1])} of {model_dir} can be read, but it has no global_step, '
                'so that training cannot go on from it: a Saver of the job leaves it out, or another program has '
                'written it. Move it away, or let the file `checkpoint` name another one; a job takes up weights alone '
                'by warm_start_from.'
            )
        damaged.append(prefixes[-1])
        _move(model_dir, prefixes.pop())
        _log.warning(
            'WARNING: checkpoint %s cannot be read (%s): moved to %s',
            os.path.basename(damaged[-1]),
            problem,
            os.path.join(model_dir, file_names.DAMAGED),
        )
    if not prefixes and (damaged or _prefixes(os.path.join(model_dir, file_names.DAMAGED))):
        raise NoGoodCheckpoint(
            f'no checkpoint of {model_dir} can be read; what is left of them is in '
            f'{os.path.join(model_dir, file_names.DAMAGED)}. Bring one back, or use another --model_dir.'
        )
    if prefixes and path != prefixes[-1]:
        tf.compat.v1.train.update_checkpoint_state(  # with a relative folder it would write other names
            os.path.abspath(model_dir),
            os.path.basename(prefixes[-1]),
            [os.path.basename(prefix) for prefix in prefixes],
        )
        _log.info('goes on from checkpoint %s', os.path.basename(prefixes[-1]))


def _damage_of_any_format(prefix: str) -> str | None:
    if checkpoint_errors.exists(f'{prefix}.index') or not v1_checkpoints.files(prefix):
        return damage(prefix)
    problem = v1_checkpoints.write_as_v2(prefix) or damage(prefix)
    if problem is None:
        _log.info('checkpoint %s has the old format V1: it is written in format V2 too', os.path.basename(prefix))
    return problem


def remove_unfinished(model_dir: str) -> None:
    """Removes what tasks that were killed within a checkpoint have left. Nobody may be saving.

    An index is written last: data without one were never a checkpoint.
    """
    names = checkpoint_errors.names(model_dir)
    for name in names:
        part = re.match(r'(model\.ckpt-.*?)(\.data-|\.index\.tempstate)', name)
        index = f'{part[1]}.index' if part else ''  # the list of a remote file system may lack it for a while
        if part and index not in names and not checkpoint_errors.exists(os.path.join(model_dir, index)):
            removal.file(os.path.join(model_dir, name), _OF_CHECKPOINT)
        elif re.fullmatch(r'model\.ckpt-.*_temp', name):
            removal.files_below(os.path.join(model_dir, name), _PART)


@checkpoint_errors.patient
def damage(prefix: str) -> str | None:
    """What is wrong with the contents of a checkpoint, in one line; None if nothing is.

    Sizes are compared with the index first, which finds most damage without reading the data. Then the
    tensors are read one after the other, which verifies their checksums; of them no two are held at once, and
    signals are seen meanwhile (CheckpointReader.get_tensor would hold Python's global lock). A partitioned
    variable is read slice by slice: of the slot of a slice, the checkpoint has no more than that slice.

    Raises:
        CannotReadCheckpoint: the operating system does not let us read it now.
    """
    reading = ''
    try:
        if not checkpoint_errors.exists(f'{prefix}.index'):
            return 'its index is missing'
        dtypes = tf.train.load_checkpoint(prefix).get_variable_to_dtype_map()
        index = bundle.read(prefix)
        problem = bundle.missing_data(prefix, index)
        if problem:
            return problem
        with eager_context.at_once(), tf.device('CPU:0'):  # a job may have turned eager execution off
            for reading, entry in index.tensors.items():
                for spec in bundle.slice_specs(entry):
                    tf.raw_ops.RestoreV2(
                        prefix=prefix,
                        tensor_names=[reading],
                        shape_and_slices=[spec],
                        dtypes=[dtypes[reading].base_dtype],
                    )
    except OSError as error:
        raise checkpoint_errors.CannotReadCheckpoint.because(error, error.filename or prefix) from error
    except checkpoint_errors.UNREADABLE as error:
        checkpoint_errors.raise_if_refused(error, prefix)
        if isinstance(error, tf.errors.ResourceExhaustedError):  # of memory: that says nothing of the contents
            raise
        return f'{reading}: {checkpoint_errors.one_line(error)}' if reading else checkpoint_errors.one_line(error)
    return None if any(name in dtypes for name in _STEPS) else NO_STEP


def _named(model_dir: str) -> str | None:
    state = checkpoint_state.read(model_dir)
    return state.model_checkpoint_path if state else None


def _in_folder(model_dir: str, path: str) -> str:
    """The prefix of the checkpoint of a path that the file `checkpoint` names. The folder may have been moved, so that
    this folder comes first."""
    path = file_names.without_shards(path)
    in_this_folder = os.path.join(model_dir, os.path.basename(path))
    for prefix in (in_this_folder, path):
        if checkpoint_errors.exists(f'{prefix}.index') or v1_checkpoints.files(prefix):
            return prefix
    return in_this_folder


@checkpoint_errors.patient
def _prefixes(model_dir: str) -> list[str]:
    names = checkpoint_errors.names(model_dir)
    of_v2 = {name[: -len('.index')] for name in names if name.startswith('model.ckpt-') and name.endswith('.index')}
    paths = [os.path.join(model_dir, name) for name in of_v2 | v1_checkpoints.among(names)]
    return [path for path in paths if _step_in_name(path) >= 0]


def _step_in_name(prefix: str) -> int:
    step = file_names.step_of(prefix)
    return -1 if step is None else step


def _move(model_dir: str, prefix: str) -> None:
    folder = os.path.join(model_dir, file_names.DAMAGED)
    os.makedirs(folder, exist_ok=True)
    start, others = f'{os.path.basename(prefix)}.', [os.path.basename(path) for path in v1_checkpoints.files(prefix)]
    for name in checkpoint_errors.names(model_dir):
        if name.startswith(start) or name in others:
            os.replace(os.path.join(model_dir, name), os.path.join(folder, name))
