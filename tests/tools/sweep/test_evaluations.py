import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.tools.sweep.evaluations import Judge, Score, of_lines, thousandths


def line(step, value, **more):
    return {'kind': 'eval', 'step': step, 'time': 1.0, 'accuracy': value, **more}


def evaluations(*values):
    """One every ten steps."""
    return [Score(10 * number, value) for number, value in enumerate(values, start=1)]


def test_of_lines():
    lines = [line(20, 0.5), line(10, 0.25), line(20, 0.75), line(30, None)]
    assert of_lines(lines, 'accuracy') == [Score(10, 0.25), Score(20, 0.75), Score(30, None)]


@pytest.mark.parametrize('lines, said', [([line(1, 0.5)], 'it has accuracy, loss'), ([line(1, 0.5)], '--metric=auc: ')])
def test_a_metric_that_there_is_not(lines, said):
    with pytest.raises(UsageError, match=said):
        of_lines([{**one, 'loss': 1.0} for one in lines], 'auc')


def test_a_metric_that_is_no_number():
    with pytest.raises(UsageError, match='no single number'):
        of_lines([line(1, [0.5, 0.25])], 'accuracy')


def test_trials_with_other_batches_are_compared_at_the_same_part_of_their_training():
    assert thousandths(50, 100) == thousandths(100, 200) == 500
    assert (thousandths(0, 100), thousandths(101, 100)) == (0, 1000)


@pytest.mark.parametrize('at_once', [True, False])
def test_the_decision_does_not_depend_on_when_one_looks(at_once):
    reported = []

    def report(at, value):
        reported.append((at, value))
        return value < 0.3

    judge, found = Judge(report), evaluations(0.5, 0.25, 0.9, 0.1)
    for seen in [4] if at_once else [1, 1, 2, 3, 4]:
        judge.look(found[:seen], 40)
    assert judge.pruned == Score(20, 0.25) and judge.value == 0.25
    assert reported == [(250, 0.5), (500, 0.25)]


def test_the_last_evaluation_prunes_nothing():
    judge = Judge(lambda at, value: True)
    assert judge.look([Score(40, 0.1)], 40) == [Score(40, 0.1)]
    assert judge.pruned is None and judge.value == 0.1


def test_what_is_not_finite_is_not_reported():
    judge = Judge(lambda at, value: pytest.fail('reported'))
    judge.look(evaluations(None), 40)
    assert judge.value is None and judge.pruned is None
