"""A quote too many in a CSV file joins rows. They are never left out as one bad example."""

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from estimator_trainer.data.files import FileSpec, open_source, source
from estimator_trainer.data.files.unreadable import Tolerance
from estimator_trainer.errors import BadExample, UsageError

fixed = tf.io.FixedLenFeature
FEATURES = {'id': fixed([], tf.int64), 's': fixed([], tf.string), 'y': fixed([], tf.int64)}
COUNT = 40


@pytest.fixture(autouse=True)
def no_source_of_another_test():
    yield
    source.forget_all()


def opened(path, *rows, header='id,s,y', end='\n', most=COUNT):
    path.write_text(end.join([header, *rows]) + end, newline='')
    return open_source(str(path), FileSpec(FEATURES), max_bad_examples=most)


def rows(changed):
    return [changed.get(i, f'{i},s{i},{i % 2}') for i in range(COUNT)]


STRAY = {
    'two, far from each other': {3: '3,5" pipe,1', 30: '30,6" pipe,0'},
    'one, to the end of the file': {3: '3,5" pipe,1'},
    'one that opens a field': {3: '3,"pipe,1'},
    'two that make one field of another type': {3: '"3,pipe,1', 5: '5",pipe,1'},
    'in a row that is short': {3: '3,"pipe', 5: '5"'},
    'round a row, in a text beside a wrong number': {3: '3,"pipe,1', 5: '5,pipe",x'},
    'round a row, in a text beside a missing number': {3: '3,"pipe,1', 5: '5,pipe",'},
}


@pytest.mark.parametrize('changed', STRAY.values(), ids=STRAY)
@pytest.mark.parametrize('end', ['\n', '\r\n', '\r'])
def test_joined_rows_are_not_left_out(tmp_path, changed, end):
    files = opened(tmp_path / 'a.csv', *rows(changed), end=end)
    with pytest.raises(BadExample, match='lines; if a quote in it is stray, these'):
        files.batch(np.arange(files.num_examples))
    error = files.failure()
    assert isinstance(error, BadExample) and not error.may_be_left_out
    assert '--max_bad_examples does not leave the row out. Repair it' in str(error)
    assert f'a.csv, line {2 + min(changed)}: ' in str(error)


def test_a_row_in_another_order_too(tmp_path):
    (tmp_path / 'a.csv').write_text('id,s,y\n0,s,1\n')
    path = tmp_path / 'b.csv'
    path.write_text('s,id,y\n5" pipe,1,1\ns,2,0\n6" pipe,3,0\n')
    files = open_source(f'{tmp_path}/*.csv', FileSpec(FEATURES), max_bad_examples=COUNT)
    with pytest.raises(BadExample, match='3 lines; if a quote in it is stray, these'):
        files.batch(np.arange(files.num_examples))


def test_a_row_of_one_line_is_left_out_and_rows_of_several_lines_are_read(tmp_path):
    changed = {3: '3,a"b"c,1', 4: '4,"two\nlines",1', 9: '9x,s,1', 10: '10,"he said ""hi""",1'}
    files = opened(tmp_path / 'a.csv', *rows(changed), most=2)
    ids = files.batch(np.arange(files.num_examples))['id'].numpy().tolist()
    assert ids == [i for i in range(COUNT) if i not in (3, 9)] and files.tolerance.count == 2


@hypothesis.settings(
    max_examples=60, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(strategies.sets(strategies.integers(0, 87), max_size=4))
def test_no_row_is_lost_without_being_counted(tmp_path, places):
    """Quotes anywhere: an error, or each line of the file is an example or is counted. Some texts become longer."""
    text = ''.join(f'{i},s{i},1\n' for i in range(12))
    for place in sorted(places, reverse=True):
        text = text[:place] + '"' + text[place:]
    path = tmp_path / 'a.csv'
    path.unlink(missing_ok=True)
    (tmp_path / '.a.csv.index').unlink(missing_ok=True)
    path.write_text('id,s,y\n' + text)
    files = open_source(str(path), FileSpec(FEATURES), max_bad_examples=COUNT)
    try:
        batch = files.batch(np.arange(files.num_examples))
    except BadExample:
        return
    lines = sum(1 + text.count(b'\n') for text in batch['s'].numpy())
    assert lines + files.tolerance.count == 12


@pytest.mark.parametrize(
    'text', ['two\nlines', 'three, they\nare,\n"good"', 'a,b,c\n1,2\n\n1,2,3,4\nid,x,y\nx1,x2,c3\n']
)
@pytest.mark.parametrize('header', ['id,s,y', 's,y,id', 'y,id,s'])
def test_a_text_of_several_lines_beside_a_wrong_number_is_one_bad_example(tmp_path, text, header):
    def row(number, text, label):
        fields = {'id': number, 's': '"' + text.replace('"', '""') + '"', 'y': label}
        return ','.join(fields[name] for name in header.split(','))

    texts = [row('0', 'a', '1'), row('1', text, ''), row('2x', text, '1'), row('3', text, '0')]
    files = opened(tmp_path / 'a.csv', *texts, header=header, most=2)
    assert files.batch(np.arange(4))['id'].numpy().tolist() == [0, 3] and files.tolerance.count == 2


def test_what_may_not_be_left_out_is_an_error():
    tolerance = Tolerance(5)
    with pytest.raises(BadExample, match='joined'):
        tolerance.leave_out(1, BadExample('joined'))
    tolerance.leave_out(2, BadExample('a bad one', may_be_left_out=True))
    assert tolerance.count == 1


def test_a_header_that_has_taken_in_rows_is_refused(tmp_path):
    for header, names in (('id,s,5" y', 'id,s,y'), ('id,s,y"', 'id,s,y"')):
        with pytest.raises(UsageError, match='a quote in its first row, which names the columns, is not closed there'):
            opened(tmp_path / 'a.csv', '1,a,1', '2,6" b,0', '3,c,1', header=header)
    (tmp_path / 'b.csv').write_text('id,s,"y\nz"\n1,a,1\n')
    features = {'id': FEATURES['id'], 'y\nz': FEATURES['y']}
    assert open_source(f'{tmp_path}/b.csv', FileSpec(features)).batch(np.arange(1))['y\nz'].numpy().tolist() == [1]
