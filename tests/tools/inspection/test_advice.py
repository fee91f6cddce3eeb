"""advice: what can be done with a run, by its kind."""

import types

import pytest

from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.inspection import advice, kinds
from estimator_trainer.tools.inspection.folder import Place
from estimator_trainer.tools.inspection.kinds import Kind
from estimator_trainer.tools.inspection.saved_files import Export, Signature
from estimator_trainer.tools.inspection.variables import Variable

PATH = 'old runs/one'


def advise(tmp_path, family, *names, own=None, named='model.ckpt-5'):
    (tmp_path / 'checkpoint').write_text(f'model_checkpoint_path: "{named}"\n')
    best = types.SimpleNamespace(name='model.ckpt-5', step=5)
    variables = [Variable(name, 'float32', (2,), 8) for name in names]
    place, kind = Place(PATH, RunFolder(str(tmp_path))), Kind(family, 'a name')
    findings = types.SimpleNamespace(
        place=place, checkpoints=[best], best=best, exports=[], graph=None, kind=kind, variables=variables, own=own
    )
    return {each.what: each for each in advice.advise(findings)}


def own_run(job, loop='estimator'):
    return types.SimpleNamespace(config={'job': job, 'loop': loop}, training={}, flags={'max_steps': 9}, path='/run')


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
def test_what_migrate_takes(tmp_path, family, names, answer):
    found = advise(tmp_path, family, *names)['migrate']
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
def test_migrate_of_a_run_of_this_trainer(tmp_path, own, answer):
    found = advise(tmp_path, kinds.CUSTOM, own=own)
    assert found['migrate'].answer == answer
    assert 'step 5: python -m estimator_trainer --max_steps=9 --model_dir=/run.' in found['resume'].reason


def test_resume_says_what_to_write_only_where_tensorflow_would_not_find_it(tmp_path):
    assert 'First write' not in advise(tmp_path, kinds.CANNED)['resume'].reason
    elsewhere = advise(tmp_path, kinds.CANNED, named='/old/model.ckpt-5')
    assert 'it names /old/model.ckpt-5 now' in elsewhere['resume'].reason


@pytest.mark.parametrize(
    'signatures, said',
    [
        ([('predict', '')], 'predict --export=where` with'),
        ([('other', '')], 'predict --export=where --signature=other` with'),
        ([('predict', 'ids'), ('other', '')], 'predict --export=where --signature=other` with'),
        (
            [('predict', 'ids'), ('other', ''), ('serving_default', '')],
            '--export=where --signature=serving_default` with',
        ),
        ([('predict', 'ids')], '`predict` does not: files need a fixed shape for each example, which the input ids'),
    ],
)
def test_predict_is_named_for_signatures_that_files_can_be_given_to(signatures, said):
    made = tuple(Signature(name, 'predict', {}, {}, not_from_files=name_of) for name, name_of in signatures)
    findings = types.SimpleNamespace(
        exports=[Export('.', 9, signatures=made)], place=Place('where', RunFolder('where'))
    )
    found = advice._of_exports(findings)
    assert found.answer == advice.YES and said in found.reason
