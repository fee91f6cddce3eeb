"""data.files.parsing: when a FileSpec contradicts the examples of a file."""

import re

import pytest
import tensorflow as tf

from estimator_trainer.data.files import FileSpec, open_source, parsing
from estimator_trainer.errors import UsageError
from estimator_trainer.tools.predict.examples import SignatureSpec
from tests.data.files import written

RARE = {'rare': tf.io.VarLenFeature(tf.int64)}


def examples(rare):
    """16 tf.Examples of which the first so many have the feature `rare` as strings, and the others do not have it."""
    text = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b'x']))
    records = [written.example(i, **({'rare': text} if i < rare else {})) for i in range(16)]
    return parsing.decoded(records)


@pytest.mark.parametrize(
    'rare, most, refuses', [(1, 0, True), (1, 8, False), (8, 8, False), (9, 8, True), (0, 0, False)]
)
def test_more_examples_than_may_be_left_out_contradict(rare, most, refuses):
    said = parsing.contradiction(RARE, examples(rare), most, FileSpec(RARE))
    expected = "has the feature 'rare' as string, and the FileSpec as int64. Correct the FileSpec."
    assert said == (expected if refuses else '')


@pytest.mark.parametrize(
    'name, key, words',
    [
        (
            'image',
            '',
            "has no feature 'image'; .* The signature serving_default takes it under this name: write records",
        ),
        (
            'rare',
            '',
            'rare. as string, and the signature serving_default as int64. The signature serving_default takes it',
        ),
        ('image', 'image', '--key=image has to be a feature of each example, of one type.'),
    ],
)
def test_who_predicts_has_written_no_spec(name, key, words):
    features = {name: tf.io.FixedLenFeature([], tf.int64)}
    spec = SignatureSpec(features, key=key, signature='serving_default')
    assert re.search(words, parsing.contradiction(features, examples(16), 0, spec))


def test_the_lists_of_a_sequence_example_are_not_read(tmp_path):
    record = tf.train.SequenceExample()
    record.context.feature['id'].int64_list.value.append(1)
    record.feature_lists.feature_list['words'].feature.add().int64_list.value.append(2)
    path, features = tmp_path / 'part-0.tfrecord', {'id': tf.io.FixedLenFeature([], tf.int64)}
    written.write_records(path, [record.SerializeToString()])
    for read in (features, {}):  # its context alone; and as it is, for a model that parses it
        open_source(str(path), FileSpec(read))
    with pytest.raises(UsageError, match=r'has tf.train.SequenceExamples, with words as feature list\(s\)'):
        open_source(str(path), FileSpec({**features, 'words': tf.io.VarLenFeature(tf.int64)}))
