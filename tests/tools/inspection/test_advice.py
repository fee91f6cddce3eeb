"""advice: what can be done with a run, by its kind."""

import pytest

from estimator_trainer.tools.inspection import advice, kinds
from estimator_trainer.tools.inspection.facts import Checkpoint, Findings, OwnRun
from estimator_trainer.tools.inspection.folder import Place
from estimator_trainer.tools.inspection.kinds import Kind
from estimator_trainer.tools.inspection.variables import Variable

PATH = 'old runs/one'


def checkpoint(*names):
    variables = tuple(Variable(name, 'float32', (2,), 8) for name in names)
    return Checkpoint('model.ckpt-5', 5, 'V2', 8, 0.0, '', 'checksums', variables=variables)


def advise(family, *names, own=None, elsewhere=''):
    best = checkpoint(*names)
    place = Place(PATH, PATH, '', {}, best.name, elsewhere, '', '', [], {}, [], bool(own), False)
    found = advice.advise(Findings(place, [best], best, kind=Kind(family, 'a name'), own=own))
    return {each.what: each for each in found}


def own_run(job, loop='estimator'):
    return OwnRun(job, loop, '', 'python -m estimator_trainer', {}, {}, {})


@pytest.mark.parametrize(
    'family, names, answer',
    [
        (kinds.CANNED, ['linear/linear_model/age/weights'], advice.PROGRAM),
        (kinds.CANNED, ['dnn/input_from_feature_columns/input_layer/a_b_shared_embedding/w'], advice.NO),
        (kinds.CUSTOM, ['conv/kernel'], advice.NO),
        (kinds.RNN, ['rnn_model/logits/bias'], advice.NO),
        (kinds.TREES, ['boosted_trees/x'], advice.NO),
        (kinds.CONTRIB, ['linear/age/weights'], advice.NO),
        (kinds.OBJECTS, ['kernel'], advice.PROGRAM),
    ],
)
def test_what_migrate_takes(family, names, answer):
    found = advise(family, *names)['migrate']
    assert found.answer == answer
    assert ("--model_dir='old runs/one' --to=FOLDER" in found.reason) == (
        family == kinds.CANNED and answer != advice.NO
    )


@pytest.mark.parametrize(
    'own, answer',
    [
        (own_run('mnist'), advice.YES),
        (own_run('wide_and_deep', 'keras_fit'), advice.YES),
        (own_run('jobs.py:job'), advice.PROGRAM),
    ],
)
def test_migrate_of_a_run_of_this_trainer(own, answer):
    assert advise(kinds.CUSTOM, own=own)['migrate'].answer == answer


def test_resume_says_what_to_write_only_where_tensorflow_would_not_find_it():
    assert 'First write' not in advise(kinds.CANNED)['resume'].reason
    assert 'it names /old/model.ckpt-5 now' in advise(kinds.CANNED, elsewhere='/old/model.ckpt-5')['resume'].reason
