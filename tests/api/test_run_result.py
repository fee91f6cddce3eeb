"""What a run has reached, as its files say it."""

import json

import pytest

from estimator_trainer.api import run_result
from estimator_trainer.api.run_result import Result
from estimator_trainer.errors import RunFailed, UsageError
from estimator_trainer.storage import needs, store
from estimator_trainer.storage.needs import Need


def line(step, **values):
    return {'kind': 'eval', 'step': step, 'time': 1.0, **values}


def test_an_empty_folder(tmp_path):
    assert run_result.read(str(tmp_path), False) == Result(str(tmp_path))


def test_a_run(tmp_path):
    (tmp_path / 'eval').mkdir()
    evaluations = [line(0, auc=0.9), line(5, auc=0.8, loss=1.0), line(7, auc=0.7, loss=0.9)]
    (tmp_path / 'eval' / 'metrics.jsonl').write_text('\n'.join(map(json.dumps, evaluations)))
    (tmp_path / 'training.json').write_text(json.dumps({'state': 'ended', 'step': 7, 'why': 'max_steps'}))
    (tmp_path / 'config.json').write_text(json.dumps({'best_metric': 'auc', 'best_mode': 'max'}))
    (tmp_path / 'report.json').write_text(json.dumps({'restarts': 2}))
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-7"\n')
    for name in ('model.ckpt-5.index', 'model.ckpt-7.index'):
        (tmp_path / name).touch()
    for name in ('export/best/10', 'export/final/9', 'export/final/10', 'export/final/temp-11', 'export/step_3/1'):
        (tmp_path / name).mkdir(parents=True)
    found = run_result.read(str(tmp_path), True)
    assert found == Result(
        model_dir=str(tmp_path),
        step=7,
        why='max_steps',
        metrics={'auc': 0.7, 'loss': 0.9, 'global_step': 7},
        best={'auc': 0.8, 'loss': 1.0, 'global_step': 5},
        checkpoint=f'{tmp_path}/model.ckpt-7',
        exports=tuple(f'{tmp_path}/export/{name}' for name in ('best/10', 'final/9', 'final/10')),
        restarts=2,
    )
    assert run_result.read(str(tmp_path), False).restarts == 0


def test_evaluations_on_other_data_are_not_the_best(tmp_path):
    (tmp_path / 'eval').mkdir()
    evaluations = [line(5, auc=0.9), line(7, auc=0.7)]
    (tmp_path / 'eval' / 'metrics.jsonl').write_text('\n'.join(map(json.dumps, evaluations)))
    (tmp_path / 'eval' / 'last.json').write_text(json.dumps({'since': 1}))
    (tmp_path / 'config.json').write_text(json.dumps({'best_metric': 'auc', 'best_mode': 'max'}))
    assert run_result.read(str(tmp_path), False).best == {'auc': 0.7, 'global_step': 7}


@pytest.mark.parametrize(
    'mode, values, step',
    [
        ('max', [0.1, 0.3, 0.2], 2),
        ('min', [0.3, 0.1, 0.1], 2),
        ('max', [None, 0.1, float('nan')], 2),
        ('max', [None, None], None),
    ],
)
def test_best(mode, values, step):
    lines = [line(number + 1, auc=value) for number, value in enumerate(values)]
    assert run_result.best(lines, 'auc', mode).get('step') == step


def test_a_loss_that_is_not_finite_is_not_the_best():
    lines = [{**line(1, auc=0.9), 'loss': None}, line(2, auc=0.5)]
    assert run_result.best(lines, 'auc', 'max')['step'] == 2


def test_what_of_a_run_in_a_store_is_fetched():
    names = (
        'config.json',
        'eval/metrics.jsonl',
        'eval/last.json',
        'checkpoint',
        'model.ckpt-1.index',
        'export/best/1/saved_model.pb',
        'a',
    )
    found = needs.of_result(names, 'model.ckpt-1')
    assert {name for name, need in found.items() if need is Need.WHOLE} == set(names[:4])
    assert set(found) == set(names[:6])


@pytest.mark.parametrize(
    'error, code, said',
    [
        (store.StoreUnavailable('no answer'), 200, 'no answer. The same'),
        (store.StoreRefused('no permission'), 74, 'no permission. The same'),
        (UsageError('--model_dir=m: nothing is there.'), 74, 'nothing is there. The same'),
        (OSError(5, 'Input/output error', 'a'), 200, "Input/output error: 'a'. The same"),
    ],
)
def test_a_result_that_cannot_be_read_is_one_kind_of_error(tmp_path, monkeypatch, error, code, said):
    def fail(model_dir, of_cluster):
        raise error

    monkeypatch.setattr(run_result, '_of_folder', fail)
    with pytest.raises(RunFailed, match='is done, but its result cannot be read: ') as caught:
        run_result.read(str(tmp_path), False)
    assert caught.value.code == code and f'{said} call reads it again.' in str(caught.value)
