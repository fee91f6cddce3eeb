"""What decides the rows of a prediction: the SavedModel, the files and the flags. Imports no TensorFlow.

A command that goes on must have the same plan.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
from typing import Any

from estimator_trainer.data.files import listing
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir.run_folder import RunFolder

NAME = 'plan.json'
PARQUET, CSV, JSON_LINES = SUFFIXES = ('.parquet', '.csv', '.jsonl')  # of the result
_MODEL = 'saved_model.pb'
DEFAULTS = ('predict', 'serving_default')  # the signature that is taken if no flag names one: the first that there is
_CHECKSUMS = ('variables', 'variables.index')  # has a checksum of each variable, so that nobody reads the large files
_DECIDE_NOTHING = ('copies', 'units')  # of PredictPlan
_MOST_FILES = 3  # that a message names


@dataclasses.dataclass(frozen=True)
class PredictPlan:
    """A prediction, but for what does not change its rows, such as the number of processes.

    Attributes:
        export: the folder of the SavedModel.
        fingerprint: of its content.
        signature: of the SavedModel; '': `predict`, or else `serving_default`.
        files: (path, size in bytes, time of modification in ns) of each, in the order of their rows.
        file_format: of the files, as --file_format.
        key: the feature that is copied into the result; '': none.
        suffix: of the result, one of SUFFIXES.
        batch_size: examples that the model gets at once. Another size may round differently.
        rows_per_part: rows of each part but the last.
        tensorflow: its version.
        outputs: of the signature, which become columns, in this order; (): all, by name.
        copies: URL -> where its copy on this machine lies now, of `export` and `files`. Decides nothing.
        units: the units of the columns on which the run of --model_dir was trained, by name; {}: none is recorded, or
            --export names the model. They decide no row, only whether there are any.
    """

    export: str
    fingerprint: str
    signature: str
    files: tuple[tuple[str, int, int], ...]
    file_format: str
    key: str
    suffix: str
    batch_size: int
    rows_per_part: int
    tensorflow: str
    outputs: tuple[str, ...] = ()
    copies: dict[str, str] = dataclasses.field(default_factory=dict)
    units: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def stamps(self) -> list[listing.Stamp]:
        """Of the files, as the command has found them. Each of its processes reads these, or none."""
        return [listing.Stamp(size, changed) for _, size, changed in self.files]

    def check_export(self) -> None:
        """Raises UsageError if the SavedModel is not what it was when the plan was made. OSError: it cannot be read."""
        if fingerprint(self.path(self.export)) != self.fingerprint:
            raise UsageError(
                f'{self.export} has changed while it was in use; put it back, or start again with the new one.'
            )

    def path(self, name: str) -> str:
        """Where the export or a file lies."""
        return self.copies.get(name, name)


def load(path: str) -> PredictPlan | None:
    """The plan in a file; None where there is no such file.

    Raises:
        UsageError: the file holds something else.
        OSError: it cannot be read.
    """
    try:
        with open(path, encoding='utf-8') as file:
            fields = json.load(file)
        files, outputs = tuple(tuple(about) for about in fields['files']), tuple(fields.get('outputs') or ())
        return PredictPlan(**{**fields, 'files': files, 'outputs': outputs})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f'{path}: is not the plan of a prediction by this version ({error}).') from error


def difference(old: PredictPlan, new: PredictPlan) -> str:
    """Says where two plans differ first; '' where they are the same."""
    named = {'tensorflow': 'the version of TensorFlow', 'suffix': 'the suffix of --out'}
    for name, before in vars(old).items():
        now = getattr(new, name)
        if before == now or name in _DECIDE_NOTHING:
            continue
        if name == 'files':
            return _files(dict((path, rest) for path, *rest in before), dict((path, rest) for path, *rest in now))
        if name == 'fingerprint':
            return f'the content of {new.export} has changed'
        if name == 'outputs':
            before, now = ','.join(before), ','.join(now)
        return f'{named.get(name, f"--{name}")} was {before or "not given"} and is {now or "not given"}'
    return ''


def digest(plan: PredictPlan) -> str:
    """Changes with all that `difference` compares."""
    fields = {**what_decides(plan), 'copies': {}}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def what_decides(plan: PredictPlan) -> dict[str, Any]:
    """The fields that `difference` compares."""
    return {name: value for name, value in dataclasses.asdict(plan).items() if name not in _DECIDE_NOTHING}


def _files(before: dict, now: dict) -> str:
    for what, paths in (
        ('are missing in --files', before.keys() - now.keys()),
        ('are new in --files', now.keys() - before.keys()),
        ('have changed', {path for path in before.keys() & now.keys() if before[path] != now[path]}),
    ):
        if paths:
            named = ', '.join(sorted(paths)[:_MOST_FILES])
            return f'{named}{", …" if len(paths) > _MOST_FILES else ""}: {len(paths)} files {what}'
    return 'the files of --files have another order'


def find_export(export: str, model_dir: str) -> str:
    """The folder of the SavedModel that the flags mean. One of the two arguments is given.

    Args:
        export: a SavedModel, or the folder above several, whose newest one is meant.
        model_dir: of a run: the one of export/best, or else the newest one of export/final.

    Raises:
        UsageError: there is no SavedModel.
    """
    run = RunFolder(os.path.expanduser(export or model_dir))
    if export:
        numbers = sorted(filter(str.isdigit, run.entries), key=int, reverse=True)
        candidates = [run.path, *map(run.file, numbers)]
    else:
        best = f'export/best/{run.best.get("saved_model")}'  # another one is of an export that was interrupted
        final = [each.path for each in run.exports if each.kind == 'final']
        candidates = [run.file(name) for name in (best, *reversed(final))]
    found = next((folder for folder in candidates if os.path.isfile(os.path.join(folder, _MODEL))), None)
    if found is None:
        raise UsageError(
            f'--export={export}: is no SavedModel and holds none: there is no {_MODEL} in it, nor in a folder in it '
            'that is named by a time. Name a folder like MODEL_DIR/export/final/1700000000.'
            if export
            else f'--model_dir={model_dir}: holds no SavedModel in export/best or export/final. Train with '
            '--export=best or --export=final and a job that has a serving_input_fn, or name a SavedModel with --export.'
        )
    return found


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
