"""Reads the examples of files by their number. `file_batches` and `predict` use it."""

import contextlib
import functools
import logging
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_trainer.data.files import listing, opening, parsing
from estimator_trainer.data.files.interfaces import Parser, Store
from estimator_trainer.data.files.spec import KNOWN_FORMATS, FileSpec
from estimator_trainer.data.files.unreadable import Tolerance
from estimator_trainer.data.remote import cache as remote_cache
from estimator_trainer.data.remote import whole_copies
from estimator_trainer.errors import BadExample, DatasetError, UsageError

_log = logging.getLogger('estimator_trainer')
_RECENT_BATCHES = 64  # more than are read ahead of a step
_LOOKED_AT = 8  # examples, before any is trained, and as many more as may be left out
_MOST_LOOKED_AT = 100  # of those more; if more may be left out, nothing is certain before
_open: 'weakref.WeakSet[Source]' = weakref.WeakSet()


def open_source(
    files: str | Sequence[str],
    spec: FileSpec,
    *,
    file_format: str = 'auto',
    in_memory_mb: int = 1024,
    max_bad_examples: int = 0,
    index_dir: str | None = None,
    cache: remote_cache.Cache | None = None,
    in_order: bool = False,
    stamps: Sequence[listing.Stamp] | None = None,
) -> 'Source':
    """Opens files as a data set.

    Args:
        files: names and globs in one string with commas between them, or a list of paths.
        spec: describes an example.
        file_format: one of spec.FORMATS; 'auto' is the format that the names of the files say.
        in_memory_mb: the MiB that decoded blocks may take: row groups of Parquet and compressed files.
        max_bad_examples: the number of examples that may be left out because they cannot be used; one more is an error.
        index_dir: the folder for indexes that cannot be written beside their files; None: these are not kept.
        cache: the cache for URLs of a store; None: `data.remote.cache.at()`.
        in_order: the files are paths, and their examples come in the order of this list.
        stamps: of the files of such a list, from when somebody else has looked at them; None: they are taken now,
            before anything is read.

    Raises:
        DatasetError: there are no such files, or they cannot be read, or one has changed since its stamp was taken.
        BadExample: a file is damaged, so that not even its examples can be counted.
        UsageError: the files lack a feature of the spec, or the store of a URL cannot be used.
        DatasetUnavailable: the store of a URL, or a file system, does not answer.
    """
    paths = list(files) if in_order else listing.expand(files)
    file_format = listing.format_of(paths, file_format)
    listing.warn_of_same_files(tuple(paths))
    objects, paths = paths, whole_copies.in_place_of(paths, cache, must_be_whole=file_format == 'array_record')
    with _naming(paths, objects):
        store, parser = opening.store_and_parser(paths, file_format, spec, in_memory_mb * 2**20, index_dir, stamps)
    source = Source(store, parser, spec, file_format, Tolerance(max_bad_examples), objects, in_memory_mb * 2**20)
    source.check_spec()
    return source


@contextlib.contextmanager
def _naming(paths: Sequence[str], objects: Sequence[str]) -> Iterator[None]:
    """Makes errors name objects of a store, not their copies on this machine."""
    try:
        yield
    except (BadExample, DatasetError, UsageError) as error:
        error.args = (_named(str(error), paths, objects),)
        raise


def _named(text: str, paths: Sequence[str], objects: Sequence[str]) -> str:
    for path, remote in zip(paths, objects) if paths is not objects else ():
        text = text.replace(path, remote)
    return text


def failure() -> Exception | None:
    """The failure of any open source, see Source.failure."""
    return next((error for source in list(_open) if (error := source.failure())), None)


def forget_all() -> None:
    """Makes `failure` ignore the sources that are open now, because another run begins in this process."""
    _open.clear()


class Source:
    """The examples of some files, numbered from 0 in the order of the sorted paths.

    Attributes:
        num_examples: the number of examples of all files.
        paths: the files; copies in place of objects of a store.
        file_format: the format of the files, not 'auto'.
        spec: the description of an example.
        sizes: the number of examples of each file.
        features: the features by name, those of the spec or of the schema of Parquet files.
        units: see Parser.units.
        tolerance: counts the examples that were left out.
        enters_anywhere: any example can be read without reading much around it.
        block_sizes, block_bytes: see data.block_order.
        most_bytes: the most bytes that decoded blocks may take.
    """

    def __init__(
        self,
        store: Store,
        parser: Parser,
        spec: FileSpec,
        file_format: str,
        tolerance: Tolerance,
        names: Sequence[str],
        most_bytes: int,
    ) -> None:
        self._names, self.most_bytes = names, most_bytes
        self._store, self._parser, self.spec, self.file_format = store, parser, spec, file_format
        self.tolerance, self.paths, self.sizes = tolerance, store.paths, store.sizes
        self.features = parser.features
        self.units = {
            name: column._replace(path=_named(column.path, store.paths, names)) for name, column in parser.units.items()
        }
        spec.check_names(self.features)
        self._firsts = np.concatenate([[0], np.cumsum(store.sizes)]).astype(np.int64)
        self.num_examples = int(self._firsts[-1])
        if not self.num_examples:
            raise DatasetError(f'{self._names[0]}: no example in this file{" and the others" if names[1:] else ""}')
        self.enters_anywhere = store.enters_anywhere
        self.block_sizes, self.block_bytes = store.block_sizes, store.block_bytes
        self.load_ahead = store.load_ahead
        self._recent: list[np.ndarray] = []
        self._recent_lock = threading.Lock()
        _open.add(self)

    def check_spec(self) -> None:
        """Looks at the first tf.Examples. Those that cannot be read are reported when a batch needs them.

        Raises:
            UsageError: all of them lack a feature of the spec, or have it with another type, and so many may not be
                left out; or a feature is a list of a SequenceExample.
        """
        if not KNOWN_FORMATS[self.file_format].has_examples:
            return
        most = self.tolerance.most  # so many may contradict the spec without an error
        ids = np.arange(min(_LOOKED_AT + most if most <= _MOST_LOOKED_AT else _LOOKED_AT, self.num_examples))
        with contextlib.suppress(BadExample, DatasetError):
            raw, bad = self._load(ids)
            records = [record for number, record in zip(ids, raw[0]) if number not in bad]
            parsing.refuse_lists(self.features, records, self._names[0])
            examples = parsing.decoded(records)
            contradiction = parsing.contradiction(self.features, examples, most, self.spec)
            if contradiction:
                raise UsageError(f'{self._names[0]} {contradiction}')
            for name, held in parsing.likely_misspelt(self.features, examples):
                _log.warning(
                    'WARNING: none of the first %d examples of %s has the feature %r, which stays empty; they have %r, '
                    'which is not in the FileSpec. Correct the name there if it is misspelt.',
                    len(ids),
                    self._names[0],
                    name,
                    held,
                )

    @property
    def held_bytes(self) -> int:
        """The bytes that decoded blocks take now."""
        return self._store.held_bytes

    def raw(self, ids: tf.Tensor, never_empty: bool = False) -> list[tf.Tensor]:
        """The raw columns of some examples, each a Tensor [n]; shorter if examples were left out.

        Args:
            ids: the numbers of the examples, int64 [n].
            never_empty: if all of them are left out, the next example that can be used is taken.
        """
        read = functools.partial(self._good, never_empty=never_empty)
        tensors = tf.nest.flatten(tf.numpy_function(read, [ids], self._parser.types, stateful=False))
        for tensor in tensors:
            tensor.set_shape([None])
        return tensors

    def parse(self, raw: Sequence[tf.Tensor]) -> dict[str, Any]:
        """The features in raw columns by name, including label and key.

        Each is a Tensor, SparseTensor or RaggedTensor [n, ...].
        """
        return self._parser.parse(raw)

    def batch(self, ids: tf.Tensor) -> dict[str, Any]:
        """The features of the examples with these numbers, as `parse`."""
        return self.parse(self.raw(ids))

    def serialized(self, ids: tf.Tensor) -> tf.Tensor | None:
        """The examples with these numbers as serialized tf.Examples, string [n]; None if the files have none."""
        return self.raw(ids)[0] if KNOWN_FORMATS[self.file_format].has_examples else None

    def where(self, number: int) -> str:
        """The place of an example, for a message: 'part-3.tfrecord, record 17 at byte 3,456'."""
        return _named(self._store.where(*self._place(number)), self.paths, self._names)

    def _place(self, number: int) -> tuple[int, int]:
        """The number of the file of an example, and of the record in the file."""
        file = int(np.searchsorted(self._firsts, number, 'right')) - 1
        return file, int(number - self._firsts[file])

    def failure(self) -> Exception | None:
        """Why a batch could not be read or parsed; None if that is not known.

        TensorFlow reports only the text of an exception, and no place if it cannot parse an example. Where examples may
        be left out, `raw` has checked each one that it has returned, so an example that was left out explains nothing.
        """
        if self.tolerance.error or self.tolerance.most:
            return self.tolerance.error
        with self._recent_lock:
            recent = list(self._recent)
        try:
            with _naming(self.paths, self._names):
                for ids in recent:
                    _, bad = self._check(ids)
                    for number, reason in sorted(bad.items()):
                        return self._error(number, reason)
        except (BadExample, DatasetError) as error:  # a file has changed, or fails, since the batch was read
            return error
        return None

    def _good(self, ids: np.ndarray, never_empty: bool = False) -> list[np.ndarray]:
        """The raw columns of the examples that can be used."""
        with self._recent_lock:
            self._recent = [*self._recent[1 - _RECENT_BATCHES :], ids]
        try:
            with _naming(self.paths, self._names):
                raw = self._usable(ids)
                for _ in range(self.num_examples if raw is None and never_empty else 0):
                    ids = (ids[-1:] + 1) % self.num_examples
                    if (raw := self._usable(ids)) is not None:
                        break
                if raw is None and never_empty:
                    raise BadExample(f'{self.paths[0]} and the others: no example can be used')
                return self._nothing() if raw is None else raw
        except (BadExample, DatasetError) as error:
            self.tolerance.error = self.tolerance.error or error
            raise

    def _usable(self, ids: np.ndarray) -> list[np.ndarray] | None:
        """The raw columns without the examples that are left out; None if all of them are."""
        raw, bad = self._check(ids) if self.tolerance.most else self._load(ids)
        for number, reason in sorted(bad.items()):
            self.tolerance.leave_out(number, self._error(number, reason))
        if not bad:
            return raw
        good = ids[~np.isin(ids, list(bad))]
        return self._load(good)[0] if len(good) else None

    def _nothing(self) -> list[np.ndarray]:
        return [np.empty(0, object if kind == tf.string else kind.as_numpy_dtype) for kind in self._parser.types]

    def _load(self, ids: np.ndarray) -> tuple[list[np.ndarray], dict[int, str]]:
        """The raw columns of some examples; and why some of them cannot be used, by their number."""
        numbers, inverse = np.unique(ids, return_inverse=True)
        files = np.searchsorted(self._firsts, numbers, 'right') - 1
        parts, bad = self._store.read(files, numbers - self._firsts[files])
        parts, cannot_be_arranged = self._parser.arranged(parts, files)
        bad = bad | cannot_be_arranged
        return self._parser.raw(parts, inverse), {int(numbers[place]): reason for place, reason in bad.items()}

    def _check(self, ids: np.ndarray) -> tuple[list[np.ndarray], dict[int, str]]:
        """Does what `_load` does, and finds examples that cannot be parsed, by halving."""
        raw, bad = self._load(ids)
        suspects = [np.setdiff1d(ids, list(bad))]
        while suspects:
            some = suspects.pop()
            reason = self._parser.problem(self._load(some)[0]) if len(some) else None
            if reason is None:
                continue
            if len(some) == 1:
                bad[int(some[0])] = reason
            else:
                suspects += [some[len(some) // 2 :], some[: len(some) // 2]]
        return raw, bad

    def _error(self, number: int, reason: str) -> BadExample:
        text = f'{self.where(number)}: {reason}'
        file, record = self._place(number)
        if KNOWN_FORMATS[self.file_format].is_text:
            ((row,),), _ = self._store.read(np.array([file]), np.array([record]))
            if lines := self._parser.joined_lines(row, file):
                return BadExample(
                    f'{text}. The row has {lines} lines; if a quote in it is stray, these are other rows, so '
                    '--max_bad_examples does not leave the row out. Repair it'
                )
        return BadExample(text, may_be_left_out=True)
