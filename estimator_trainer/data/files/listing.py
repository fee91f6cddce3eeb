"""Finds the files of a data set and their format. Imports no TensorFlow."""

import collections
import contextlib
import functools
import glob
import logging
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from estimator_trainer.config import urls
from estimator_trainer.data.files.spec import FORMATS, KNOWN_FORMATS
from estimator_trainer.data.remote import paths as remote_paths
from estimator_trainer.data.remote.paths import RemotePath
from estimator_trainer.errors import DatasetError, UsageError

_log = logging.getLogger('estimator_trainer')
_ALL_ENDINGS = tuple(ending for known in KNOWN_FORMATS.values() for ending in known.endings)
_COMPRESSED = ('.gz', '.gzip', '.zlib')
_TAB = '\t'


class Stamp(NamedTuple):
    """Two files with the same stamp are the same."""

    size: int  # bytes
    changed: int  # the time of the last change in nanoseconds; for an object of a store RemotePath.changed


def stamp(path: str) -> Stamp:
    """The stamp of a file now. Raises OSError if it cannot be read."""
    if isinstance(path, RemotePath):
        return Stamp(path.size, path.changed)
    status = os.stat(path)
    return Stamp(status.st_size, status.st_mtime_ns)


def expand(files: str | Sequence[str], flag: str = '--train_files', folder: str = '') -> list[str]:
    """The paths of files, sorted, each once. Objects of a store are data.remote.paths.RemotePath.

    Args:
        files: names and globs, or URLs of a store, in one string with commas between them, or a list of paths.
        flag: the flag that has them, for messages.
        folder: where relative names lie; '': in the current folder.

    Raises:
        UsageError: the store of a URL cannot be used.
        DatasetError: a name or a glob matches no file, or a folder of data; or some files are of this machine, and
            others in a store; or a folder cannot be listed, or a file not be looked at.
        DatasetUnavailable: the store of a URL does not answer, or a file system.
    """
    patterns = [part.strip() for part in files.split(',')] if isinstance(files, str) else [os.fspath(p) for p in files]
    paths: set[str] = set()
    for pattern in patterns:
        if urls.is_url(pattern):
            paths.update(
                [pattern] if isinstance(pattern, RemotePath) else remote_paths.expand(pattern, flag, format_by_name)
            )
            continue
        pattern = os.path.expanduser(pattern)
        is_there = _is_there(pattern, folder)
        matching = [pattern] if is_there else glob.glob(pattern, root_dir=folder or None, recursive=True)
        if not is_there:
            _check_listed(pattern, folder)
        if not matching:
            raise DatasetError(f'no file matches {pattern!r} (looked from {folder or os.getcwd()})')
        paths.update(_absolute(path) for path in _files_of([os.path.join(folder, each) for each in matching]))
    if len({isinstance(path, RemotePath) for path in paths}) > 1:
        raise DatasetError(f'{min(paths)} and {max(paths)}: name files of this machine or of a store, not of both')
    return sorted(paths)


def _absolute(path: str) -> str:
    """The path from the root. One that leaves a folder by '..' is what the system finds: the folder may be a link."""
    if os.pardir not in path.split(os.sep):
        return os.path.abspath(path)
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _is_there(pattern: str, root: str) -> bool:
    """Whether a pattern is the name of something that is there. Raises DatasetError if the file system does not say."""
    from estimator_trainer.data.files import unreadable

    try:
        os.stat(os.path.join(root, pattern))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        if glob.has_magic(pattern):  # hardly a name
            return False
        raise unreadable.because(os.path.join(root, pattern), error) from error
    return True


def _check_listed(pattern: str, root: str) -> None:
    """glob.glob leaves out, without a word, what is in a folder that cannot be listed or entered.

    Args:
        root: the folder below which the pattern is, '' where that is the current one.

    Raises:
        DatasetError: there is such a folder. One that others keep closed, such as lost+found, is named in a warning.
    """
    from estimator_trainer.data.files import unreadable

    def check(error: OSError, folder: str = '') -> None:
        if isinstance(error, PermissionError):
            said = f'WARNING: %s: %s cannot be {"entered" if folder else "listed"} (%s), and its files are left out'
            _log.warning(said, pattern, folder or error.filename, error.strerror)
        elif not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise unreadable.because(error.filename or pattern, error) from error

    def check_entered(folder: str, name: str) -> None:
        try:
            os.lstat(os.path.join(folder, name))
        except OSError as error:
            check(error, folder)

    parts = pattern.split(os.sep)
    for number, part in enumerate(parts):
        above = os.sep.join(parts[:number]) or (os.sep if number else os.curdir)
        if not glob.has_magic(part) and not glob.has_magic(above):
            continue
        name = next((each for each in parts[number:] if each != '**'), '')  # that is looked for in each folder
        folders = glob.glob(above, root_dir=root or None) if glob.has_magic(above) else [above]
        for folder in (os.path.join(root, each) for each in folders):
            if part == '**':
                for below, _, _ in os.walk(folder, onerror=check):
                    if name and not glob.has_magic(name):
                        check_entered(below, name)
            if not glob.has_magic(part):
                check_entered(folder, part)
                continue
            try:
                collections.deque(os.scandir(folder), maxlen=0)
            except OSError as error:
                check(error)
        if part == '**':
            return


def _files_of(matching: list[str]) -> list[str]:
    """The paths that are files.

    Folders that a glob matches are left out, as in a store. A folder whose name says that it holds data, such as
    x.parquet of Spark, is refused if the glob matches none of its files.
    """
    folders = sorted(path.rstrip(os.sep) for path in matching if os.path.isdir(path))
    files = [path for path in matching if not os.path.isdir(path)]
    for folder in folders:
        if not files or (format_by_name(folder) and not any(path.startswith(folder + os.sep) for path in files)):
            raise DatasetError(f'{folder} is a folder; name its files, such as {_example_of(folder)}')
    for path in files:
        with contextlib.suppress(OSError):  # reported when it is read
            mode = os.stat(path).st_mode
            if not stat.S_ISREG(mode):
                raise DatasetError(f'{path} is no regular file, but a pipe, socket or device; write the data to a file')
    return files


@functools.lru_cache(maxsize=64)  # once in a process: evaluations open the same files again
def warn_of_same_files(paths: tuple[str, ...]) -> None:
    """Warns where several of these paths lead to one file."""
    twice = listed_twice(paths)
    for path, first in list(twice.items())[:1]:
        _log.warning(
            'WARNING: %s and %s are the same file, so its examples come twice in each epoch (%d such file(s)). Name '
            'each file by one path, if you do not mean this.',
            first,
            path,
            len(twice),
        )


def listed_twice(paths: Sequence[str]) -> dict[str, str]:
    """The paths that lead to the file of an earlier path, such as through a link to its folder; with that path.

    Paths to objects of a store lead to different ones.
    """
    first: dict[tuple[int, int], str] = {}
    twice: dict[str, str] = {}
    for path in paths:
        if isinstance(path, RemotePath):
            continue
        with contextlib.suppress(OSError):  # is reported when the file is read
            status = os.stat(path)
            known = first.setdefault((status.st_dev, status.st_ino), path)
            # Some file systems give several files one number.
            if known != path and (status.st_nlink > 1 or os.path.realpath(known) == os.path.realpath(path)):
                twice[path] = known
    return twice


def format_of(paths: Sequence[str], file_format: str = 'auto') -> str:
    """The format of all these files. 'auto' is the format that their names say.

    Raises:
        DatasetError: the names say no format, or several formats.
    """
    if file_format not in FORMATS:
        raise DatasetError(f'file_format {file_format!r}: use one of {", ".join(FORMATS)}')
    if file_format != 'auto':
        return file_format
    formats = {path: format_by_name(path) for path in paths}
    first = paths[0]
    for path, its_format in formats.items():
        if not its_format:
            raise DatasetError(
                f'{path}: its name does not tell its format; give --file_format, or leave it out, such as with '
                f'{os.path.basename(_example_of(os.path.dirname(path)))}'
            )
        if its_format != formats[first]:
            raise DatasetError(f'{first} is {formats[first]}, and {path} is {its_format}; name files of one format')
    return formats[first]


def format_by_name(path: str) -> str:
    """The format that a name says; '' if it says none."""
    ending = _ending_of(path)
    return next((file_format for file_format, known in KNOWN_FORMATS.items() if ending in known.endings), '')


def delimiter_of(paths: Sequence[str]) -> str:
    """The character between two columns of these CSV files, according to their names.

    Raises:
        UsageError: the names say two characters.
    """
    first: dict[str, str] = {}
    for path in paths:
        first.setdefault(_TAB if _ending_of(path) == '.tsv' else ',', path)
    if len(first) > 1:
        raise UsageError(
            f'{first[","]} and {first[_TAB]}: the names say that commas separate the columns of one and tabs those of '
            'the other; name files of one kind, or give FileSpec.delimiter if all have the same'
        )
    return next(iter(first))


def _ending_of(path: str) -> str:
    """'.csv' for 'train.csv.gz', 'train.csv-00000-of-00004' and 'train-00000-of-00004.csv'; '' if there is none.

    An ending at the end of the name counts before one that a dash follows.
    """
    name = os.path.basename(path).lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    for ending in _ALL_ENDINGS:
        if name.endswith(ending):
            return ending
    places = {ending: name.rfind(f'{ending}-') for ending in _ALL_ENDINGS}
    last = max(_ALL_ENDINGS, key=places.__getitem__)
    return last if places[last] >= 0 else ''


def _example_of(folder: str) -> str:
    """A glob for the files in a folder that have the most frequent ending."""
    with contextlib.suppress(OSError):
        endings = collections.Counter(filter(None, map(_ending_of, sorted(os.listdir(folder)))))
        if endings:
            return os.path.join(folder, f'*{endings.most_common(1)[0][0]}*')
    return os.path.join(folder, '*')
