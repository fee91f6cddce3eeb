"""evaluation.evaluation_journal: what is still owed of the last checkpoint that was taken up."""

import dataclasses
import json
import math

import pytest

from estimator_trainer.evaluation import evaluation_journal


def entry(step=60, digest='d60', final=False, lines=0, finals=(), done=False):
    return evaluation_journal.EvaluationEntry(f'model.ckpt-{step}', step, digest, final, lines, finals, done)


def line(step, loss=0.5):
    return {'kind': 'eval', 'step': step, 'time': 1.0, 'loss': loss}


def test_a_new_checkpoint_is_taken_up_whatever_was_before():
    new = entry(80, 'd80', lines=1)
    assert evaluation_journal.take_up(None, new, [line(60)]) == new
    assert evaluation_journal.take_up(entry(done=True), new, [line(60)]) == new


def test_other_weights_of_the_same_step_are_evaluated_anew():
    new = entry(60, 'other', lines=1, finals=('1',))
    assert evaluation_journal.take_up(entry(final=True, done=True), new, [line(60)]) == new


@pytest.mark.parametrize(
    'was, asked, final, done',
    [(False, False, False, True), (True, True, True, True), (True, False, True, True), (False, True, True, False)],
)
def test_what_is_done_is_not_done_again(was, asked, final, done):
    found = evaluation_journal.take_up(
        entry(final=was, done=True), entry(final=asked, lines=1, finals=('9',)), [line(60)]
    )
    assert found == entry(final=final, done=done)


def test_what_is_not_done_keeps_what_was_there_before_it():
    undone = entry(final=True, lines=3, finals=('1',))
    lines = [line(20), line(40), line(60), line(60)]
    assert evaluation_journal.take_up(undone, entry(final=True, lines=4, finals=('1', '2')), lines) == undone


def test_a_line_that_somebody_has_removed_is_written_again():
    found = evaluation_journal.take_up(entry(lines=4, done=True), entry(lines=0), [])
    assert found == entry(lines=0)


def test_a_checkpoint_without_an_index_is_never_the_same():
    assert evaluation_journal.take_up(entry(digest='', done=True), entry(digest='', lines=1), [line(60)]).done is False


@pytest.mark.parametrize(
    'lines, results',
    [([], None), ([line(60)], {'loss': 0.5}), ([line(40)], None), ([line(60), line(60, 0.7)], {'loss': 0.7})],
)
def test_the_results_are_those_of_the_last_line_of_the_step(lines, results):
    assert evaluation_journal.recorded(entry(), lines) == results


def test_a_line_from_before_does_not_count():
    assert evaluation_journal.recorded(entry(lines=1), [line(60)]) is None


@pytest.mark.parametrize(
    'before, now, are_other',
    [
        ('', 'a/10/640', False),
        ('a/10/640', '', False),
        ('a/10/640', 'a/10/640', False),
        ('a/10/640', 'a/10/320', True),
        ('a/all', 'a/10/640', True),
        ('a/10', 'a/10/640', False),  # an earlier version did not say how many examples
        ('a/1', 'a/10/640', True),
        ('a/10', 'b/10/640', True),
        ('a/all', 'a/all', False),
    ],
)
def test_what_is_evaluated_on_other_data_is_not_compared(before, now, are_other):
    assert evaluation_journal.are_other_data(before, now) is are_other
    assert dataclasses.replace(entry(), data=before).is_on_other_data(now) is are_other


def test_what_was_not_finite_is_nan():
    assert math.isnan(evaluation_journal.recorded(entry(), [line(60, None)])['loss'])


def test_the_file(tmp_path):
    assert evaluation_journal.read(str(tmp_path)) is None
    for written in (entry(), entry(final=True, lines=7, finals=('1', '2'), done=True)):
        evaluation_journal.write(str(tmp_path), written)
        assert evaluation_journal.read(str(tmp_path)) == written
    path = tmp_path / 'eval/last.json'
    path.write_text(json.dumps({**dataclasses.asdict(entry()), 'later': 1}))
    assert evaluation_journal.read(str(tmp_path)) == entry()
    for text in ('', '[]', '{"step": 3}', path.read_text()[:40]):
        path.write_text(text)
        assert evaluation_journal.read(str(tmp_path)) is None
    (tmp_path / 'eval/last.json.77.tmp').touch()
    evaluation_journal.remove_unfinished(str(tmp_path))
    assert [file.name for file in (tmp_path / 'eval').iterdir()] == ['last.json']
