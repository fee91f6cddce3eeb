"""What decides the rows of a prediction. A command that goes on must have the same plan. Pure."""

import dataclasses
import json
from typing import Any

from estimator_trainer.errors import UsageError

NAME = 'plan.json'
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
        suffix: of the result: '.parquet', '.csv' or '.jsonl'.
        batch_size: examples that the model gets at once. Another size may round differently.
        rows_per_part: rows of each part but the last.
        tensorflow: its version.
        outputs: of the signature, which become columns, in this order; (): all, by name.
        copies: URL -> where its copy on this machine lies now, of `export` and `files`. Decides nothing.
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

    def path(self, name: str) -> str:
        """Where the export or a file lies."""
        return self.copies.get(name, name)


def to_json(plan: PredictPlan) -> dict[str, Any]:
    return dataclasses.asdict(plan)


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
    for field in dataclasses.fields(PredictPlan):
        before, now = getattr(old, field.name), getattr(new, field.name)
        if before != now and field.name != 'copies':
            if field.name == 'files':
                return _files(dict((path, rest) for path, *rest in before), dict((path, rest) for path, *rest in now))
            if field.name == 'fingerprint':
                return f'the content of {new.export} has changed'
            if field.name == 'outputs':
                before, now = ','.join(before), ','.join(now)
            return f'{_flag(field.name)} was {before or "not given"} and is {now or "not given"}'
    return ''


def _flag(name) -> str:
    if name == 'tensorflow':
        return 'the version of TensorFlow'
    return 'the suffix of --out' if name == 'suffix' else f'--{name}'


def _files(before, now) -> str:
    for what, paths in (
        ('are missing in --files', before.keys() - now.keys()),
        ('are new in --files', now.keys() - before.keys()),
        ('have changed', {path for path in before.keys() & now.keys() if before[path] != now[path]}),
    ):
        if paths:
            named = ', '.join(sorted(paths)[:_MOST_FILES])
            return f'{named}{", …" if len(paths) > _MOST_FILES else ""}: {len(paths)} files {what}'
    return 'the files of --files have another order'
