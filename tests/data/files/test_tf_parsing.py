"""data.files.parsing: when a FileSpec contradicts the examples of a file."""

import pytest
import tensorflow as tf

from estimator_trainer.data.files import parsing
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
    said = parsing.contradiction(RARE, examples(rare), most)
    expected = "has the feature 'rare' as string, and the FileSpec as int64. Correct the FileSpec."
    assert said == (expected if refuses else '')
