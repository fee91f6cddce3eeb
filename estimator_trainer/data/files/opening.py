"""Opens the files of each format: what reads their records, and what parses them."""

from collections.abc import Sequence

from estimator_trainer.data.files import csv_rows, index, listing, parsing, unreadable
from estimator_trainer.data.files.interfaces import Parser, Store
from estimator_trainer.data.files.spec import KNOWN_FORMATS, FileSpec
from estimator_trainer.data.remote.paths import RemotePath
from estimator_trainer.errors import BadExample, UsageError


def store_and_parser(
    paths: list[str],
    file_format: str,
    spec: FileSpec,
    most_bytes: int,
    index_dir: str | None,
    stamps: Sequence[listing.Stamp] | None = None,
) -> tuple[Store, Parser]:
    """Opens files of one format.

    Args:
        paths: the files.
        file_format: their format, not 'auto'.
        spec: describes an example.
        most_bytes: the most bytes of decoded blocks that are held in memory.
        index_dir, stamps: see source.open_source.

    Raises:
        UsageError, DatasetError, BadExample: as source.open_source. DatasetError also if a file has changed since its
            stamp was taken: its header, its index and its records would be of two contents.
    """
    if stamps is None:
        stamps = [unreadable.stamp(path) for path in paths]
    try:
        opened = _opened(paths, file_format, spec, most_bytes, index_dir, stamps)
    except (BadExample, UsageError):
        _refuse_changed(paths, stamps)  # what is wrong may be that the file was replaced
        raise
    _refuse_changed(paths, stamps)
    return opened


def _refuse_changed(paths: Sequence[str], stamps: Sequence[listing.Stamp]) -> None:
    from estimator_trainer.data.files import records

    for path, stamp in zip(paths, stamps):
        records.check_unchanged(path, stamp)


def _opened(
    paths: list[str],
    file_format: str,
    spec: FileSpec,
    most_bytes: int,
    index_dir: str | None,
    stamps: Sequence[listing.Stamp],
) -> tuple[Store, Parser]:
    if file_format == 'parquet':
        from estimator_trainer.data.files.parquet import ParquetFiles

        parquet_files = ParquetFiles(paths, spec, most_bytes, stamps)
        return parquet_files, parquet_files
    parser: Parser
    if file_format == 'csv':
        parser = csv_rows.CsvParser(spec, paths)
    elif KNOWN_FORMATS[file_format].has_examples:
        parser = parsing.ExampleParser(spec)
    else:
        raise NotImplementedError(f'nothing says which parser {file_format} files have')
    return _records(paths, file_format, spec, most_bytes, index_dir, stamps), parser


def _records(
    paths: list[str],
    file_format: str,
    spec: FileSpec,
    most_bytes: int,
    index_dir: str | None,
    stamps: Sequence[listing.Stamp],
) -> Store:
    from estimator_trainer.data.files import array_records, records, streamed

    if file_format == 'array_record':
        return array_records.ArrayRecordFiles(paths, stamps)
    has_header = file_format == 'csv' and not spec.columns
    starts = index.load_all(paths, file_format, has_header, index_dir)
    objects = [path for path in paths if isinstance(path, RemotePath)]
    if objects:
        return streamed.StreamedFiles(objects, file_format, starts, most_bytes, stamps)
    return records.IndexedFiles(paths, file_format, starts, most_bytes, stamps)
