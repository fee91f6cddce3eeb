"""Opens the files of each format: what reads their records, and what parses them."""

from estimator_trainer.data.files import csv_rows, index, parsing
from estimator_trainer.data.files.interfaces import Parser, Store
from estimator_trainer.data.files.spec import KNOWN_FORMATS, FileSpec
from estimator_trainer.data.remote.paths import RemotePath


def store_and_parser(
    paths: list[str], file_format: str, spec: FileSpec, most_bytes: int, index_dir: str | None
) -> tuple[Store, Parser]:
    """Opens files of one format.

    Args:
        paths: the files.
        file_format: their format, not 'auto'.
        spec: describes an example.
        most_bytes: the most bytes of decoded blocks that are held in memory.
        index_dir: see source.open_source.

    Raises:
        UsageError, DatasetError, BadExample: as source.open_source.
    """
    if file_format == 'parquet':
        from estimator_trainer.data.files.parquet import ParquetFiles

        parquet_files = ParquetFiles(paths, spec, most_bytes)
        return parquet_files, parquet_files
    parser: Parser
    if file_format == 'csv':
        parser = csv_rows.CsvParser(spec, paths)
    elif KNOWN_FORMATS[file_format].has_examples:
        parser = parsing.ExampleParser(spec)
    else:
        raise NotImplementedError(f'nothing says which parser {file_format} files have')
    return _records(paths, file_format, spec, most_bytes, index_dir), parser


def _records(paths: list[str], file_format: str, spec: FileSpec, most_bytes: int, index_dir: str | None) -> Store:
    from estimator_trainer.data.files import array_records, records, streamed

    if file_format == 'array_record':
        return array_records.ArrayRecordFiles(paths)
    has_header = file_format == 'csv' and not spec.columns
    starts = index.load_all(paths, file_format, has_header, index_dir)
    objects = [path for path in paths if isinstance(path, RemotePath)]
    if objects:
        return streamed.StreamedFiles(objects, file_format, starts, most_bytes)
    return records.IndexedFiles(paths, file_format, starts, most_bytes)
