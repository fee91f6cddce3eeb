import json
import signal

import pytest

from estimator_trainer.supervisor.reports import report_file
from estimator_trainer.tools.sweep import katib, sweep_report
from estimator_trainer.tools.sweep import trial as trials
from estimator_trainer.tools.sweep.sweep_plan import SweepPlan
from estimator_trainer.tools.sweep.trial import Trial, TrialStatus

PLAN = SweepPlan('accuracy', 'max', 1, 5, ('rate:log:1e-4:1', 'optimizer:choice:sgd,adam'), {})


def flags(params):
    return [f'--param=rate={params["rate"]}', '--x=a b']


DONE = Trial(1, TrialStatus.DONE, {'rate': 0.0012345, 'optimizer': 'sgd'}, value=0.9, step=100, secs=75)
PRUNED = Trial(2, TrialStatus.PRUNED, {'rate': 0.5, 'optimizer': 'adam'}, value=0.2, step=50, secs=20)
FAILED = Trial(
    3, TrialStatus.FAILED, {'rate': 1.0, 'optimizer': 'adam'}, exit_code=70, cause='the loss is nan at step 3'
)
BEST = Trial(4, TrialStatus.DONE, {'rate': 0.01, 'optimizer': 'adam'}, value=0.95, step=100, secs=75)
RUNNING = Trial(5, TrialStatus.RUNNING, {'rate': 0.02, 'optimizer': 'adam'})


def test_table():
    again = Trial(6, TrialStatus.FAILED, {}, exit_code=70, cause=FAILED.cause + '. Try another one')
    assert sweep_report.table([DONE, PRUNED, FAILED, RUNNING, again], PLAN).splitlines() == [
        'trial    state      rate  optimizer  accuracy  step   time',
        '    1     done  0.001234        sgd       0.9   100  1m15s',
        '    2   pruned       0.5       adam       0.2    50    20s',
        '    3   failed         1       adam',
        '    5  running      0.02       adam',
        '    6   failed',
        'failed: trial 3, 6: the loss is nan at step 3',
    ]


def test_lines():
    assert sweep_report.begins(DONE, 20, False) == 'trial 1 of 20: rate 0.001234, optimizer sgd'
    assert sweep_report.begins(DONE, 20, True).startswith('trial 1 of 20 goes on: ')
    everything = [DONE, PRUNED, FAILED, BEST]
    assert sweep_report.ended(BEST, everything, PLAN, 20) == (
        'trial 4 of 20 is done: accuracy 0.95 at step 100; the best so far'
    )
    assert sweep_report.ended(PRUNED, everything, PLAN, 20).endswith('; best so far 0.95 of trial 4')
    assert 'exit code 70 (the loss or a weight is NaN' in sweep_report.ended(FAILED, [FAILED], PLAN, 20)
    assert 'stopping trial 1, trial 5 after' in sweep_report.stopping(signal.SIGINT, [DONE, RUNNING])


def test_the_best_is_named_with_its_export(tmp_path):
    export = tmp_path / 'trial-0004' / 'export' / 'final' / '1700'
    export.mkdir(parents=True)
    (export.parent / '900').mkdir()
    said = sweep_report.conclusion([DONE, BEST], PLAN, str(tmp_path), flags).splitlines()
    assert said[0] == 'best: trial 4, accuracy 0.95: rate 0.01, optimizer adam'
    assert said[1:3] == [f'folder: {tmp_path / "trial-0004"}', f'export: {export}']
    assert said[3:] == ["flags: --param=rate=0.01 '--x=a b'"]
    assert 'none' in sweep_report.conclusion([FAILED, PRUNED], PLAN, str(tmp_path), flags)


def test_sweep_json(tmp_path):
    document = sweep_report.document('done', PLAN, [DONE, FAILED, BEST], str(tmp_path), flags)
    assert json.loads(json.dumps(document)) == document
    assert document['best']['trial'] == 4 and document['best']['export'] is None
    assert [entry['state'] for entry in document['trials']] == ['done', 'failed', 'done']


def test_best():
    tie = Trial(6, TrialStatus.DONE, {}, value=0.95)
    assert trials.best([DONE, BEST, tie, PRUNED, FAILED], True) is BEST
    assert trials.best([DONE, BEST], False) is DONE
    assert trials.best([PRUNED, FAILED, RUNNING], True) is None


@pytest.mark.parametrize(
    'states, failed_now, expected',
    [('FFF', 3, True), ('FFFR', 3, True), ('FF', 2, False), ('FFF', 0, False), ('DFFF', 3, False), ('FFFP', 3, False)],
)
def test_several_failures_at_the_start_are_enough(states, failed_now, expected):
    kinds = {'F': TrialStatus.FAILED, 'R': TrialStatus.RUNNING, 'D': TrialStatus.DONE, 'P': TrialStatus.PRUNED}
    all_trials = [Trial(number, kinds[state], {}) for number, state in enumerate(states, start=1)]
    assert trials.is_hopeless(all_trials, failed_now, 3) is expected


def test_what_goes_on():
    assert trials.to_go_on_with([DONE, RUNNING, Trial(2, TrialStatus.RUNNING, {}), FAILED]) == [2, 5]


def test_katib():
    lines = [
        {'kind': 'eval', 'step': 5, 'time': 1700000000.5, 'accuracy': 0.25, 'loss': None, 'auc': [1.0]},
        {'kind': 'eval', 'step': 10, 'time': 1700000001, 'accuracy': 1e-05},
    ]
    assert katib.lines_of(lines) == [
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
        ({}, 66, [], 'the data set or a data file is missing, has changed or cannot be read'),
    ],
)
def test_the_cause_of_a_failure(said, code, last, expected):
    assert report_file.failure_reason(said, code, last) == expected
