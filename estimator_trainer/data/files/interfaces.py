"""The two parts of a Source: a Store reads records, and a Parser turns them into tensors.

A record that cannot be used is refused by its place, so that it may be left out (--max_bad_examples). There are three
ways, and each gives the reason as the end of a sentence:

1. Store.read, if the bytes are damaged.
2. Parser.arranged, if Python sees that the record does not fit.
3. Parser.problem, if Parser.parse raises an error of TensorFlow for a batch. The Source then asks for the halves of the
   batch, until it has found the record.

A file of which no record can be found is a BadExample, and one that cannot be read, or has changed, is a DatasetError:
both end the run. Features that the files do not have are a UsageError when the parser is made.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from estimator_trainer.data.files.spec import Feature
from estimator_trainer.data.files.units import Column


class Store(Protocol):
    """Reads records: IndexedFiles, StreamedFiles, ArrayRecordFiles or ParquetFiles.

    Attributes:
        paths: the files.
        sizes: the number of examples of each file, int64.
        enters_anywhere: any record can be read without reading much around it.
        block_sizes, block_bytes: the number of examples, and of decoded bytes, of each block; see data.block_order.
            Blocks are numbered over all files. A store without blocks makes them of neighbouring records.
    """

    paths: Sequence[str]
    sizes: np.ndarray
    enters_anywhere: bool
    block_sizes: np.ndarray
    block_bytes: np.ndarray

    @property
    def held_bytes(self) -> int:
        """The bytes of the blocks that are held in memory now."""

    def read(self, files: np.ndarray, records: np.ndarray) -> tuple[list[Any], dict[int, str]]:
        """Reads some records. Several threads may call it at the same time.

        Args:
            files, records: the number of the file, and of the record in the file, of each record: int64 [n], sorted by
                file and record. Each record occurs once.

        Returns:
            The records in their order, in one part or several, which are of the type that the parser takes; and for
            records that cannot be used the reason, by their place in the request. These records have a place in the
            parts too.

        Raises:
            BadExample: no record of a part of a file can be found.
            DatasetError: a file has changed, or cannot be read.
        """

    def where(self, file: int, record: int) -> str:
        """The place of a record, for a message: 'part-3.tfrecord, record 17 at byte 3,456'."""

    def load_ahead(self, blocks: Iterable[int], beside: Iterable[int] = ()) -> None:
        """Loads `blocks`, which are needed soon. The blocks `beside` are needed now, and stay."""


class Parser(Protocol):
    """Turns records into tensors: ExampleParser, CsvParser or ParquetFiles.

    NumPy arrays, the raw columns, carry the records into the graph of TensorFlow, and `parse` is a part of this graph.
    """

    @property
    def types(self) -> Sequence[tf.DType]:
        """The types of the raw columns."""

    @property
    def features(self) -> Mapping[str, Feature]:
        """The features, by name: those of the spec, or of the schema of the files."""

    @property
    def units(self) -> Mapping[str, Column]:
        """The columns whose values have one type in all files, by name; none where files do not say types."""

    def arranged(self, parts: list[Any], files: np.ndarray) -> tuple[list[Any], dict[int, str]]:
        """Brings the records of several files into the same form.

        Args:
            parts: what Store.read returns.
            files: the number of the file of each record, int64 [n].

        Returns:
            The parts, and for records that cannot be used the reason, by their place. If the records of all files have
            the same form: (parts, {}).
        """

    def raw(self, parts: Sequence[Any], inverse: np.ndarray) -> list[np.ndarray]:
        """The raw columns of some examples, each with one array of the type in `types`.

        Args:
            parts: what `arranged` returns.
            inverse: for each example the number of its record in all parts together, int64 [n]. A record may occur
                several times.
        """

    def parse(self, raw: Sequence[tf.Tensor]) -> dict[str, Any]:
        """The features of the examples as a Tensor, SparseTensor or RaggedTensor, by name. Builds a graph."""

    def problem(self, raw: Sequence[np.ndarray]) -> str | None:
        """Why these raw columns cannot be parsed; None if they can."""

    def joined_lines(self, record: bytes, file: int) -> int:
        """The number of lines of a row of text that cannot be used, if a stray quote may have joined several rows to
        it. 0 if it is one row, and for all other records."""
