"""Finds the SavedModel that the flags mean. Imports no TensorFlow."""

import hashlib
import json
import os
import pathlib

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir.run_folder import RunFolder

_MODEL = 'saved_model.pb'
_CHECKSUMS = ('variables', 'variables.index')  # has a checksum of each variable, so that nobody reads the large files


def find(export: str, model_dir: str) -> str:
    """The folder of the SavedModel. One of the two arguments is given.

    Args:
        export: a SavedModel, or the folder above several, whose newest one is meant.
        model_dir: of a run: the one of export/best, or else the newest one of export/final.

    Raises:
        UsageError: there is no SavedModel.
    """
    if export:
        folder = os.path.abspath(os.path.expanduser(export))
        newest = folder if _is_saved_model(folder) else _newest(folder)
        if newest is None:
            raise UsageError(
                f'--export={export}: is no SavedModel and holds none: there is no {_MODEL} in it, nor in a folder in '
                'it that is named by a time. Name a folder like MODEL_DIR/export/final/1700000000.'
            )
        return newest
    run = RunFolder(os.path.expanduser(model_dir))
    best = run.file(f'export/best/{run.best.get("saved_model")}')  # another one is of an export that was interrupted
    final = [run.file(each.path) for each in run.exports if each.kind == 'final']
    candidates = [best, *reversed(final)]
    chosen = next(filter(_is_saved_model, candidates), None)
    if chosen is None:
        raise UsageError(
            f'--model_dir={model_dir}: holds no SavedModel in export/best or export/final. Train with --export=best '
            'or --export=final and a job that has a serving_input_fn, or name a SavedModel with --export.'
        )
    return chosen


def fingerprint(folder: str) -> str:
    """A text that changes when the SavedModel does.

    It covers the names and sizes of all files, and the bytes of all but the variables. Of these it covers the index,
    which holds a checksum of each one.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    root = pathlib.Path(folder)
    for path in sorted(path for path in root.rglob('*') if path.is_file()):
        parts = path.relative_to(root).parts
        digest.update(json.dumps([parts, path.stat().st_size]).encode())
        if parts[0] != _CHECKSUMS[0] or parts == _CHECKSUMS:
            with open(path, 'rb') as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()[:16]


def _is_saved_model(folder) -> bool:
    return os.path.isfile(os.path.join(folder, _MODEL))


def _newest(folder) -> str | None:
    """The newest of the SavedModels in a folder, which are named by the time at which they were written."""
    try:
        names = [name for name in os.listdir(folder) if name.isdigit() and _is_saved_model(os.path.join(folder, name))]
    except OSError:
        return None
    return os.path.join(folder, max(names, key=int)) if names else None
