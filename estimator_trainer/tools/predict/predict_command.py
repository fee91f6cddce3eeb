"""`python -m estimator_trainer predict`: argv -> a file of predictions and an exit code."""

import contextlib
import dataclasses
import functools
import glob
import hashlib
import json
import logging
import os
from collections.abc import Iterator

from estimator_trainer import compat, exit_codes
from estimator_trainer.config import flags, urls
from estimator_trainer.config.declaration import REQUIRED, flag
from estimator_trainer.data.files import FORMATS, listing
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import config_file, removal
from estimator_trainer.storage import connection, needs, store
from estimator_trainer.this_process import log
from estimator_trainer.tools import command_line, local_copies
from estimator_trainer.tools.predict.predict_plan import SUFFIXES, PredictPlan, find_export, fingerprint, what_decides

USAGE = """\
usage: python -m estimator_trainer predict --export=FOLDER|--model_dir=FOLDER --files=GLOB --out=FILE [--key=NAME]

Predicts every example of the files with a SavedModel, and writes one row for each, in the order of
the files. The suffix of --out chooses Parquet, CSV or JSON lines. If the command is killed, the
same command goes on where it was: each row is in the result once. Each of the four may be in a store
(s3://, gs://, az://).
"""
_log = logging.getLogger('estimator_trainer')


def main(argv) -> int:
    """Runs the command line `argv`, without program name. The exit code: 0, USAGE, DAMAGED for an example on which the
    model fails, NO_DATA, that of a signal or of a file that cannot be written, or that of a process that fails."""
    return command_line.run(
        argv, USAGE, PredictFlags, lambda: _predict(flags.parse_with_folder(PredictFlags, ['predict', *argv]))
    )


_model = functools.partial(flag, group='The model')
_rows = functools.partial(flag, group='The examples and their predictions')
_how = functools.partial(flag, group='How')


@dataclasses.dataclass(frozen=True)
class PredictFlags:
    export: str = _model(
        '', 'A SavedModel, or the folder above several: the newest one is taken.', unset='the one of --model_dir'
    )
    model_dir: str = _model(
        '', 'Folder of a run, in place of --export: its export/best, or else its export/final.', unset='none'
    )
    signature: str = _model('', 'The signature of the SavedModel.', unset='predict, or else serving_default')
    files: str = _rows('', 'The files with the examples: a glob, or several separated by commas.', unset=REQUIRED)
    file_format: str = _rows('auto', 'The format of the files. auto: their suffix says it.', choices=FORMATS)
    key: str = _rows('', 'A feature or column that becomes the first column of the result.', unset='none')
    outputs: tuple = _rows(
        (),
        'Outputs of the signature that become columns, with commas between them, in this order.',
        unset='all, by name',
    )
    out: str = _rows('', f'The file for the predictions, which ends with {", ".join(SUFFIXES)}.', unset=REQUIRED)
    batch_size: int = _how(1024, 'Examples that the model gets at once.', least=1, why='keeps two cores busy')
    processes: int = _how(
        1, 'Processes that predict.', least=1, why='one process uses all cores; several help where reading is slow'
    )
    rows_per_part: int = _how(
        10_000, 'Rows that are kept together. A kill costs the part under way.', least=1, why='seconds of work'
    )
    timeout_secs: float = _how(
        600, 'Longest time in which a process finishes no batch.', unit='s', above=0, wanted='give more than 0.'
    )
    progress: str = _how(
        'auto',
        'How progress is shown. auto: a bar on a terminal, lines elsewhere; on: a bar; off: lines.',
        choices=('auto', 'on', 'off'),
    )


def _predict(values) -> int:
    _check(values)
    with local_copies.LocalCopies() as here, _result(values.out, os.environ) as result:
        plan = _plan(values, here)
        out = result.path(plan) if result else os.path.abspath(os.path.expanduser(values.out))
        from estimator_trainer.tools.predict import prediction  # needs NumPy

        log.set_up()
        if not (result and os.path.exists(out)):  # of a command that could not send it
            with contextlib.closing(prediction.Progress(log.wants_bar(values.progress), named=here.shown)) as progress:
                prediction.predict(plan, out, values.processes, values.timeout_secs, progress)
        if result:
            result.send(out)
        _log.info('done: %s', values.out if result else out)
    return exit_codes.OK


def _plan(values, here: local_copies.LocalCopies) -> PredictPlan:
    flag_, place = ('--export', values.export) if values.export else ('--model_dir', values.model_dir)
    folder = here.run(place, flag_, needs.of_exports)
    export = ''
    while export != (found := find_export(folder if values.export else '', '' if values.export else folder)):
        here.add(found)  # while it is fetched, a better one may take its place
        export = found
    by_name = {here.shown(path): path for path in listing.expand(here.files(values.files, '--files'))}
    paths = [by_name[name] for name in sorted(by_name)]  # in the order of the URLs, not of their copies
    names = {path: here.shown(path) for path in (export, *paths)}
    return PredictPlan(
        export=names[export],
        fingerprint=fingerprint(export),
        signature=values.signature,
        files=tuple((names[path], *listing.stamp(path)) for path in paths),
        file_format=listing.format_of(paths, values.file_format),
        key=values.key,
        suffix=os.path.splitext(values.out)[1],
        batch_size=values.batch_size,
        rows_per_part=values.rows_per_part,
        tensorflow='.'.join(map(str, compat.tensorflow_version())),
        outputs=tuple(name for name in values.outputs if name),
        copies={name: path for path, name in names.items() if name != path},
        units=config_file.files(folder).get('units') or {} if values.model_dir else {},
    )


def _check(values) -> None:
    if bool(values.export) == bool(values.model_dir):
        raise UsageError('give either --export=FOLDER, a SavedModel, or --model_dir=FOLDER, the folder of a run.')
    for name, what in (('files', 'the files with the examples'), ('out', 'the file for the predictions')):
        if not getattr(values, name):
            raise UsageError(f'--{name} is missing: name {what}.')
    if not values.out.endswith(SUFFIXES):
        raise UsageError(f'--out={values.out}: the name ends with none of {", ".join(SUFFIXES)}.')


class _StoreResult:
    """A result that is an object in a store. Its parts are in the user's cache until it is sent, so that the same
    command goes on after a kill."""

    def __init__(self, url: str, remote: store.Store, scratch: str):
        self._url, self._store, self._scratch = url, remote, scratch
        self._name = urls.name(url).rpartition('/')[2]

    def path(self, plan: PredictPlan) -> str:
        """Where a result of this plan is written, or lies since a command that could not send it. The folder is there.

        Raises:
            OSError: it cannot be made.
        """
        digest = hashlib.sha256(json.dumps(what_decides(plan)).encode()).hexdigest()[:12]
        folder = os.path.join(self._scratch, digest)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return os.path.join(folder, self._name)

    def check(self) -> None:
        """Raises UsageError if the object is there already, StoreError."""
        if self._store.head(self._name):
            raise UsageError(f'--out={self._url}: is there already; remove it, or name another file.')

    def send(self, path: str) -> None:
        """Raises as `check`, and OSError. If it raises, the file stays."""
        self.check()
        self._store.put_file(self._name, path)
        removal.file(path, removal.Written([path]))

    def remove_empty(self) -> None:
        """Removes the folders in the cache, unless something is in them."""
        for folder in [*glob.glob(f'{glob.escape(self._scratch)}/*/'), self._scratch]:
            with contextlib.suppress(OSError):
                removal.empty_folder(folder, removal.Named(r'[0-9a-f]{12}|.*-[0-9a-f]{12}'))


@contextlib.contextmanager
def _result(out: str, environ) -> Iterator[_StoreResult | None]:
    """A context with the result that --out names; None if that is no URL.

    Raises:
        UsageError: the URL is none, the object is there already, or the store refuses to be written to.
        store.StoreUnavailable: the store does not answer.
    """
    if not urls.is_url(out):
        yield None
        return
    urls.check(out, '--out')
    folder = urls.normal(out).rpartition('/')[0]
    urls.check(folder, '--out')
    result = _StoreResult(out, connection.connect(folder, environ, '--out'), urls.scratch_dir(out, environ))
    result.check()
    try:
        yield result
    finally:
        result.remove_empty()
