"""Describes an example of files, in the same way for all formats."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from estimator_trainer.errors import UsageError, nearest

Feature: TypeAlias = Any  # tf.io.FixedLenFeature, VarLenFeature or RaggedFeature


class Format(NamedTuple):
    """What is true of all files of a format.

    Attributes:
        endings: of their names, in lower case.
        has_examples: a record is a serialized tf.Example.
        is_text: a record is a row of text, which ends with a line end.
    """

    endings: tuple[str, ...]
    has_examples: bool = False
    is_text: bool = False


KNOWN_FORMATS = {
    'tfrecord': Format(('.tfrecord', '.tfrecords', '.tfr'), has_examples=True),
    'csv': Format(('.csv', '.tsv'), is_text=True),
    'parquet': Format(('.parquet', '.pq')),
    'array_record': Format(('.array_record', '.arrayrecord'), has_examples=True),
}
FORMATS = ('auto', *KNOWN_FORMATS)  # the values of --file_format


@dataclasses.dataclass(frozen=True)
class FileSpec:
    """The features of an example, by name.

    Attributes:
        features: a tf.io.FixedLenFeature, VarLenFeature or RaggedFeature for each name, also for the label.
            `tf.feature_column.make_parse_example_spec` makes such a dict. A FixedLenFeature with a default_value may be
            missing in an example. In CSV and Parquet the names are those of columns, and other columns are not read.
            None means, for Parquet, all columns of the first file's schema.
        label: the feature that becomes the label of a batch; '' for batches without labels.
        key: a feature or another column that names an example. The model does not get it; `predict` copies it into its
            output.
        columns: the names of the columns of CSV files without a header line, in their order; () if the first line of
            each file names them.
        delimiter: the character between two columns of CSV; '' means a tab in files that are named .tsv, and a comma in
            others.

    Raises:
        UsageError: label or key is no text, or the label is none of `features`.
    """

    features: Mapping[str, Feature] | None
    label: str = ''
    key: str = ''
    columns: tuple[str, ...] = ()
    delimiter: str = ''

    def __post_init__(self) -> None:
        for name in ('label', 'key'):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise UsageError(
                    f'FileSpec.{name}={value!r}: the name of one feature is needed. Others stay among the features, '
                    'where a model_fn finds them.'
                )
        if self.features is not None:
            self.check_names(self.features)

    def check_names(self, features: Iterable[str]) -> None:
        """Raises UsageError if the label is none of these features. A key has to be one only if they are all that the
        files have: where the spec names features, it may be another column."""
        names = sorted(map(str, features))
        for name in ('label', 'key') if self.features is None else ('label',):
            value = getattr(self, name)
            if value and value not in names:
                raise UsageError(
                    f'FileSpec.{name}={value!r} is none of the features{nearest(value, names)}, which are '
                    f'{", ".join(names) or "none"}.'
                )

    @property
    def words(self) -> str:
        """What a message calls it."""
        return 'the FileSpec'

    def cure_of_contradiction(self, name: str, absent: bool = False) -> str:
        """What helps if tf.Examples have a feature in another way, or do not have it: a sentence of a message."""
        return f'Correct the FileSpec{", or give the feature a default_value" if absent else ""}.'

    def cure_of_no_column(self, name: str = '') -> str:
        """What helps if the first line of a CSV file does not name this column, or any: a sentence of a message."""
        return 'FileSpec.columns names those of files without a header line'

    def cure_of_delimiter(self, delimiter: str) -> str:
        """What helps if this character is between the columns of CSV: the end of a message."""
        return f'give FileSpec(…, delimiter={delimiter!r})'

    def cure_of_empty_field(self, name: str) -> str:
        """What helps if a field of CSV is empty, and its feature has no default: the end of a message."""
        return 'which takes a default_value of its feature'
