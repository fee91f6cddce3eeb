"""`python -m estimator_trainer report`: model_dirs -> a page and an exit code. Imports no TensorFlow."""

import dataclasses
import os
from collections.abc import Sequence

from estimator_trainer import exit_codes
from estimator_trainer.config import flags, urls
from estimator_trainer.config.declaration import flag
from estimator_trainer.errors import UsageError
from estimator_trainer.monitoring.report_page import NAME, NEEDED, missing
from estimator_trainer.run_dir import file_names, files, files_of_others
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.storage import needs
from estimator_trainer.tools import command_line, local_copies

USAGE = """\
usage: python -m estimator_trainer report MODEL_DIR... [--out=FILE]

Writes a page that shows a run: curves, what happened to its tasks, where the time went, its
configuration, variables, data and files. Several model_dirs make a page that compares them. The
page is one file and needs no network. Reads any model_dir, also while it is trained, those of
other Estimator programs, and those of which files are missing or damaged; changes no other file. Of a sweep's
folder it compares the trials. A MODEL_DIR and --out may be in a store (s3://, gs://, az://).
"""

_OF_SWEEP = (file_names.SWEEP, file_names.STUDY)


@dataclasses.dataclass(frozen=True)
class ReportFlags:
    model_dir: tuple = command_line.model_dirs(several=True)
    out: str = flag(
        '',
        'File for the page.',
        group='The report',
        unset=f'{NAME} in the model_dir; in the current folder for several; {file_names.SWEEP_PAGE} in the folder of a '
        'sweep',
    )


def main(argv: Sequence[str]) -> int:
    """Runs the command line `argv`, without program name. The exit code: 0, USAGE, or that of a file that cannot be
    read or written."""
    return command_line.run(
        argv, USAGE, ReportFlags, lambda: _report(*flags.parse_with_words(ReportFlags, ['report', *argv]))
    )


def _report(values: ReportFlags, words: Sequence[str]) -> int:
    paths = [*words, *values.model_dir]
    if not paths:
        raise UsageError('name the model_dir of a run, or several.')
    if missing():
        raise UsageError(f'the page needs {" and ".join(missing())}: pip install {" ".join(NEEDED)}')
    paths = [path if urls.is_url(path) else os.path.expanduser(path) for path in paths]
    out = values.out if urls.is_url(values.out) else os.path.expanduser(values.out)
    out = out or (os.path.join(paths[0], NAME) if len(paths) == 1 else NAME)
    trials = {path: folders for path in paths if (folders := _trials(path)) is not None}
    if len(paths) == 1 and trials and not values.out:
        out = os.path.join(paths[0], file_names.SWEEP_PAGE)
    paths = [each for path in paths for each in trials.get(path, [path])]
    with local_copies.LocalCopies() as copies:
        page = copies.file(out, '--out')
        if os.path.isdir(page):
            raise UsageError(f'--out={out}: is a folder; name a file.')
        size = write([copies.run(path, 'MODEL_DIR', needs.of_report) for path in paths], page, paths, out)
        copies.send()
    print(f'{out if urls.is_url(out) else page}: {size / 1e6:.2f} MB')
    return exit_codes.OK


def _trials(path: str) -> list[str] | None:
    """The model_dirs of the trials of a sweep that have begun; None: the folder is not that of a sweep.

    Raises:
        UsageError: no trial has begun.
    """
    root = os.path.expanduser(path)
    if urls.is_url(path) or not any(os.path.exists(os.path.join(root, name)) for name in _OF_SWEEP):
        return None
    names = sorted(RunFolder(root).entries, key=lambda name: (len(name), name))
    begun = [os.path.join(path, name) for name in names if os.path.exists(os.path.join(root, name, file_names.CONFIG))]
    if not begun:
        raise UsageError(f'{path}: is the folder of a sweep, none of whose trials has begun yet.')
    return begun


def write(folders: Sequence[str], out: str, addresses: Sequence[str] = (), address: str = '') -> int:
    """Writes the page of these model_dirs, whole or not at all. Its size in bytes.

    Args:
        addresses: the path or URL of each, as the page names it; () for `folders`.
        address: the path or URL that the page gets; '' for `out`.

    Raises:
        UsageError: one of them holds no run, or `out` is there and is no page of this program.
        OSError: a file cannot be read or written.
    """
    from estimator_trainer.tools.report import page, run_files, summary  # they need what `missing` tells of

    files_of_others.refuse_page(out)
    addresses = [urls.normal(each) if urls.is_url(each) else os.path.abspath(each) for each in addresses or folders]
    named = zip(folders, summary.names(addresses), addresses)
    runs = [run_files.read(folder, name, address=each) for folder, name, each in named]

    text = page.page(runs, address or out)
    with files.replacing(out) as temporary, files.create(temporary) as file:
        file.write(text)
    return len(text.encode())
