import dataclasses
import io
import json

import pytest

from estimator_trainer.supervisor.reports import report_file
from estimator_trainer.tools.sweep import sweep_report
from estimator_trainer.tools.sweep.sweep_report import Trial

PLAN = {'metric': 'accuracy', 'mode': 'max', 'seed': 1, 'param_space': ['rate:log:1e-4:1'], 'prune_after': 5}


def trial(number, state, params, **about):
    return Trial(number, state, f'/sweep/trial-{number:04d}', params, **about)


def flags(params):
    return [f'--param=rate={params["rate"]}', '--x=a b']


DONE = trial(1, 'done', {'rate': 0.0012345, 'optimizer': 'sgd'}, value=0.9, step=100, secs=75)
PRUNED = trial(2, 'pruned', {'rate': 0.5, 'optimizer': 'adam'}, value=0.2, step=50, secs=20)
FAILED = trial(3, 'failed', {'rate': 1.0, 'optimizer': 'adam'}, exit_code=70, cause='the loss is nan at step 3')
BEST = trial(4, 'done', {'rate': 0.01, 'optimizer': 'adam'}, value=0.95, step=100, secs=75)
RUNNING = trial(5, 'running', {'rate': 0.02, 'optimizer': 'adam'})


def test_table():
    again = trial(6, 'failed', {}, exit_code=70, cause=FAILED.cause + '. Try another one')
    assert sweep_report.table([DONE, PRUNED, FAILED, RUNNING, again], 'accuracy').splitlines() == [
        'trial    state      rate  optimizer  accuracy  step   time',
        '    1     done  0.001234        sgd       0.9   100  1m15s',
        '    2   pruned       0.5       adam       0.2    50    20s',
        '    3   failed         1       adam',
        '    5  running      0.02       adam',
        '    6   failed',
        'failed: trial 3, 6: the loss is nan at step 3',
    ]


def ended(one, trials):
    return sweep_report.ended(one, trials, 'accuracy', 'max')


def test_lines():
    assert DONE.params_in_words == 'rate 0.001234, optimizer sgd'
    assert trial(1, 'running', {}).params_in_words == 'nothing varies'
    everything = [DONE, PRUNED, FAILED, BEST]
    assert ended(BEST, everything) == 'is done: accuracy 0.95 at step 100; the best so far'
    assert ended(PRUNED, everything).endswith('; best so far 0.95 of trial 4')
    assert 'exit code 70 (the loss or a weight is NaN' in ended(FAILED, [FAILED])


def test_the_best_is_named_with_its_export(tmp_path):
    export = tmp_path / 'trial-0004' / 'export' / 'final' / '1700'
    export.mkdir(parents=True)
    (export.parent / '900').mkdir()
    best = dataclasses.replace(BEST, model_dir=str(tmp_path / 'trial-0004'))
    said = sweep_report.conclusion([DONE, best], 'accuracy', 'max', flags).splitlines()
    assert said[0] == 'best: trial 4, accuracy 0.95: rate 0.01, optimizer adam'
    assert said[1:3] == [f'folder: {tmp_path / "trial-0004"}', f'export: {export}']
    assert said[3:] == ["flags: --param=rate=0.01 '--x=a b'"]
    assert 'none' in sweep_report.conclusion([FAILED, PRUNED], 'accuracy', 'max', flags)


def test_sweep_json():
    document = sweep_report.document('done', PLAN, [DONE, FAILED, BEST], flags)
    assert json.loads(json.dumps(document)) == document
    assert document['best']['trial'] == 4 and document['best']['export'] is None
    assert [entry['state'] for entry in document['trials']] == ['done', 'failed', 'done']


def test_best():
    tie = trial(6, 'done', {}, value=0.95)
    assert sweep_report.best([DONE, BEST, tie, PRUNED, FAILED], 'max') is BEST
    assert sweep_report.best([DONE, BEST], 'min') is DONE
    assert sweep_report.best([PRUNED, FAILED, RUNNING], 'max') is None


def test_katib():
    lines = [
        {'kind': 'eval', 'step': 5, 'time': 1700000000.5, 'accuracy': 0.25, 'loss': None, 'auc': [1.0]},
        {'kind': 'eval', 'step': 10, 'time': 1700000001, 'accuracy': 1e-05},
    ]
    out = io.StringIO()
    sweep_report.write_metrics(lines, out)
    assert out.getvalue().splitlines() == [
        '2023-11-14T22:13:20.500Z accuracy=0.25',
        '2023-11-14T22:13:21.000Z accuracy=1e-05',
    ]


@pytest.mark.parametrize(
    'said, code, last, expected',
    [
        ({'exit_code': 70, 'attempts': [{'cause': {'message': 'NaN', 'text': 'x'}}]}, 70, ['y'], 'NaN'),
        ({'exit_code': 70, 'attempts': [{'cause': {'message': None, 'text': 'it ended'}}]}, 70, [], 'it ended'),
        ({'exit_code': 0, 'attempts': [{'cause': None}]}, 64, ['x', 'error: --a=1: no', 'end'], '--a=1: no'),
        ({}, 64, ['x', 'killed', ' '], 'killed'),
        ({}, 66, [], 'the data set or a data file is missing or empty, has changed or cannot be read'),
    ],
)
def test_the_cause_of_a_failure(said, code, last, expected):
    assert report_file.failure_reason(said, code, last) == expected
