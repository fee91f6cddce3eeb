"""What the arguments of a tool name: folders and files of this machine, or copies of those in a store.

    with local_copies.LocalCopies() as here:
        model_dir = here.run(values.model_dir, '--model_dir', needs.of_report)
        out = here.file(values.out, '--out')
        ...
        here.send()
        print(here.shown(out))

A value that is no URL is returned as it is, with the home folder in place of a `~`, so that a tool does the same with
both. What a tool writes is sent when it
says so, in an order in which nobody takes for whole what is not. The copies are in a temporary folder, which vanishes
with the context, and all errors that leave the context name URLs.
"""

import contextlib
import functools
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from multiprocessing.pool import ThreadPool
from typing import Any

from estimator_trainer.config import urls
from estimator_trainer.data.files import listing
from estimator_trainer.data.remote import paths
from estimator_trainer.errors import DatasetError, UsageError
from estimator_trainer.storage import connection, copies, globs, names, send_order, store
from estimator_trainer.storage.needs import Need, Needs
from estimator_trainer.tools import bounded


class LocalCopies:
    """A context for one command. In the main thread, once there is a URL, SIGTERM and SIGHUP end it as Ctrl-C does."""

    def __init__(self, environ=os.environ):
        self._environ = environ
        self._root = ''  # made when the first URL comes
        self._copies: dict[str, copies.Copy] = {}  # by folder
        self._results: list[_Result] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> 'LocalCopies':
        return self

    def __exit__(self, kind, error, traceback) -> None:
        if error is not None:
            self._name_urls(error)
        for copy in self._copies.values():
            copy.close()
        if self._root:
            self._temporary.cleanup()
        self._stack.close()

    def run(self, value: str, flag: str, needs: Needs, writes: bool = False) -> str:
        """The folder of a run, or of an export: of what is in a store, what `needs` says.

        Args:
            writes: the tool writes in the folder, and sends that by `send_changes`.

        Raises:
            UsageError: there is nothing, the URL is none, or the store refuses.
            store.StoreUnavailable: the store does not answer.
            OSError: of this machine.
        """
        if not urls.is_url(value):
            return os.path.expanduser(value)
        copy = self.copy(value, flag, needs, writes)
        if not copy.found:
            raise UsageError(f'{flag}={value}: nothing is there; name the folder of a run or an export.')
        return copy.folder

    def copy(self, url: str, flag: str, needs: Needs, writes: bool = False) -> copies.Copy:
        """As `run`, for a URL; the folder may be empty."""
        urls.check(url, flag)
        url = urls.normal(url)
        connect = connection.connect if writes else connection.open_for_reading
        remote = _interruptibly(lambda: connect(url, self._environ, flag))
        folder = self._new_folder(url)
        copy = copies.Copy(remote, folder, needs, _say)
        self._copies[folder] = copy
        with connection.usage_errors(url, flag):
            _interruptibly(copy.refresh)
        return copy

    def files(self, value: str, flag: str) -> list[str]:
        """Files that are given by names and globs with commas between them: the paths of the copies of those in stores,
        and all others as they are given. Raises as `run`, and DatasetError if a store has no such file."""
        found: list[str] = []
        for pattern in map(str.strip, value.split(',')):
            found += self._matching(pattern, flag) if urls.is_url(pattern) else [pattern]
        return found

    def _matching(self, url: str, flag: str) -> list[str]:
        url = urls.normal(url)
        urls.check(url, flag, may_be_glob=True)
        pattern = globs.split(url)
        if not urls.name(pattern.folder):
            raise UsageError(f'{flag}={url}: name a bucket and a folder in it, without *.')

        def needed(found: Collection[str], newest: str | None) -> dict[str, Need]:
            meant = globs.matching(found, pattern)
            paths.refuse_folders(found, meant, pattern, listing.format_by_name)
            return dict.fromkeys(meant, Need.WHOLE)

        copy = self.copy(pattern.folder, flag, needed)
        if not copy.names:
            raise DatasetError(f'{flag}={url}: no object matches.')
        return [os.path.join(copy.folder, name) for name in copy.names]

    def refresh(self, folder: str) -> None:
        """Makes a folder that `run` has returned what the store holds now. Raises StoreError, OSError."""
        if folder in self._copies:
            _interruptibly(self._copies[folder].refresh)

    def send_changes(self, folder: str) -> None:
        """Sends what the tool has written in a folder that `run` has returned. Raises StoreError, OSError."""
        if folder in self._copies:
            self._copies[folder].send_changes()

    def add(self, folder: str) -> None:
        """Fetches all of a folder within one that `run` has returned. Raises StoreError, UsageError, OSError."""
        for copy in self._copies.values():
            if os.path.commonpath([copy.folder, os.path.abspath(folder)]) == copy.folder:
                _interruptibly(functools.partial(copy.add, folder))

    def file(self, value: str, flag: str) -> str:
        """The path of a file that the tool writes. A store is written to, replaced and deleted from once. An object
        that is there already is fetched, so that the tool sees whether it may replace it.

        Raises:
            UsageError: the URL is none, or the store refuses.
            store.StoreUnavailable: the store does not answer.
        """
        if not urls.is_url(value):
            return os.path.expanduser(value)
        if value.endswith('/'):
            raise UsageError(f'{flag}={value}: is a folder; name a file.')
        urls.check(value, flag)
        parent = urls.normal(value).rpartition('/')[0]
        name = urls.name(value).rpartition('/')[2]
        if not urls.name(parent):
            raise UsageError(f'{flag}={value}: a file must lie in a folder, such as {parent}/out/{name}.')
        return os.path.join(self._result(parent, flag, name, [name]), name)

    def folder(self, value: str, flag: str, replaced: Sequence[str] = ()) -> str:
        """The path of a folder that the tool fills. Raises as `file`.

        Args:
            replaced: the names of files that the tool replaces if they are its own; they are fetched, as in `file`.
        """
        return self._result(value, flag, '', replaced) if urls.is_url(value) else os.path.expanduser(value)

    def is_empty(self, folder: str, besides: str) -> bool:
        """Whether nothing is where `folder` leads, but for a file."""
        for result in self._results:
            if result.folder == folder:
                return not set(result.store.list()) - {besides}
        return not os.path.isdir(folder) or not set(os.listdir(folder)) - {besides}

    def send(self) -> None:
        """Sends what the tool has written. Raises StoreError, OSError."""
        for result in self._results:
            _interruptibly(result.send)

    def shown(self, value: Any) -> Any:
        """Text, or all texts in what is to become JSON, with URLs in place of folders that stand for them."""
        if isinstance(value, str):
            for folder, url in self._urls().items():
                value = value.replace(folder, url)
            return value
        if isinstance(value, dict):
            return {self.shown(key): self.shown(each) for key, each in value.items()}
        return [self.shown(each) for each in value] if isinstance(value, list | tuple) else value

    def _urls(self) -> dict[str, str]:
        return {copy.folder: copy.url.rstrip('/') for copy in self._copies.values()} | {
            result.folder: result.store.url.rstrip('/') for result in self._results
        }

    def _name_urls(self, error: BaseException) -> None:
        error.args = tuple(map(self.shown, error.args))
        if isinstance(error, OSError) and isinstance(error.filename, str):
            error.filename = self.shown(error.filename)

    def _result(self, url: str, flag: str, name: str, replaced: Sequence[str]) -> str:
        urls.check(url, flag)
        url = urls.normal(url)
        remote = _interruptibly(lambda: connection.connect(url, self._environ, flag))
        folder = self._new_folder(url)
        self._results.append(_Result(remote, folder, name))
        with connection.usage_errors(url, flag):
            _interruptibly(lambda: self._results[-1].fetch(replaced))
        return folder

    def _new_folder(self, url: str) -> str:
        """An empty one, whose last names are those of the URL."""
        if not self._root:
            self._stack.enter_context(bounded.ended_by_signals())
            self._temporary = tempfile.TemporaryDirectory(prefix='estimator-trainer-', ignore_cleanup_errors=True)
            self._root = os.path.realpath(self._temporary.name)
        number = len(self._copies) + len(self._results)
        scheme, _, path = url.rstrip('/').partition('://')
        folder = os.path.join(self._root, f'{scheme}-{number}', *path.split('/'))
        os.makedirs(folder)
        return folder


class _Result:
    """A folder that becomes one in a store, or a file in it that does."""

    def __init__(self, remote: store.Store, folder: str, name: str):
        self.store, self.folder, self._name = remote, folder, name

    def fetch(self, found: Sequence[str]) -> None:
        for name in found:
            there = self.store.read(name)
            if there:
                with open(os.path.join(self.folder, name), 'wb') as file:
                    file.write(there[0])

    def send(self) -> None:
        found = [self._name] if self._name else filter(names.is_mirrored, copies.files_below(self.folder))
        for name in send_order.of_new(found):
            self.store.put_file(name, os.path.join(self.folder, name))


def _interruptibly(function: Callable[[], Any]) -> Any:
    """Calls it in a thread, so that a signal need not wait for the answer of a store."""
    with ThreadPool(1) as pool:
        return pool.apply_async(function).get()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
