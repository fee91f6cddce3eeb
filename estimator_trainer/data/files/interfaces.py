"""The two parts of a Source: a Store reads records, and a Parser turns them into tensors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from estimator_trainer.data.files.spec import Feature


class Store(Protocol):
    """Reads records: IndexedFiles, ArrayRecordFiles or ParquetFiles. IndexedFiles describes the members."""

    paths: Sequence[str]
    sizes: np.ndarray
    enters_anywhere: bool
    block_sizes: np.ndarray
    block_bytes: np.ndarray

    @property
    def held_bytes(self) -> int: ...

    def read(self, files: np.ndarray, records: np.ndarray) -> tuple[list[Any], dict[int, str]]: ...

    def where(self, file: int, record: int) -> str: ...

    def load_ahead(self, blocks: Iterable[int], beside: Iterable[int] = ()) -> None: ...


class Parser(Protocol):
    """Turns records into tensors: ExampleParser, CsvParser or ParquetFiles. ExampleParser describes the members."""

    @property
    def types(self) -> Sequence[tf.DType]: ...

    @property
    def features(self) -> Mapping[str, Feature]: ...

    def raw(self, parts: Sequence[Any], inverse: np.ndarray) -> list[np.ndarray]: ...

    def parse(self, raw: Sequence[tf.Tensor]) -> dict[str, Any]: ...

    def problem(self, raw: Sequence[np.ndarray]) -> str | None: ...
