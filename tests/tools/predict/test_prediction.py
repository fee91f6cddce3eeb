"""predict.prediction, with processes that need no TensorFlow."""

import dataclasses
import os
import pathlib
import signal
import sys

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import locks
from estimator_trainer.tools.predict import prediction
from tests.tools.predict.test_predict_plan import PLAN
from tests.tools.predict.worker_of_tests import ROWS

ROOT = pathlib.Path(__file__).parents[3]
SMALL = dataclasses.replace(PLAN, rows_per_part=3)
EXPECTED = ''.join(f'{row}\n' for row in ['"id"', *range(ROWS)])


@pytest.fixture(autouse=True)
def signals_as_in_a_terminal():
    """The tests themselves may run under nohup, or as a shell's background job, which ignore these."""
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGHUP, signal.SIGINT)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.fixture
def out(tmp_path, monkeypatch):
    def command(folder, number, processes):
        return (sys.executable, '-m', 'tests.tools.predict.worker_of_tests', folder, str(number), str(processes))

    monkeypatch.setattr(prediction, 'command', command)
    monkeypatch.setenv('PYTHONPATH', str(ROOT))
    return tmp_path / 'all.csv'


def predict(out, plan=SMALL, processes=2, timeout_secs=60.0):
    progress = prediction.Progress(bar=False)
    prediction.predict(plan, str(out), processes, timeout_secs, progress)
    return progress


def parts(out) -> list:
    folder = pathlib.Path(f'{out}.parts')
    return sorted(path.name for path in folder.glob('part-*')) if folder.exists() else None


@pytest.mark.parametrize('processes', [1, 3])
def test_every_row_once_and_in_order(out, processes):
    progress = predict(out, processes=processes)
    assert out.read_text() == EXPECTED and parts(out) is None
    assert progress.rows == progress.done == ROWS


@pytest.mark.parametrize(
    'fault, code', [('die', 137), ('raise', 1), ('SIGTERM', 143), ('SIGINT', 130), ('SIGHUP', 143)]
)
def test_it_goes_on_after_the_parts_that_are_there(out, monkeypatch, fault, code):
    monkeypatch.setenv('FAULT', fault)
    with pytest.raises(prediction.Ended) as ended:
        predict(out)
    assert ended.value.code == code and ('the same command goes on' in str(ended.value)) == (code > 1)
    assert not out.exists() and parts(out)
    progress = predict(out)  # which finds that the fault has been
    assert out.read_text() == EXPECTED and parts(out) is None
    assert progress.done == ROWS


def test_parts_are_not_predicted_again(out, monkeypatch):
    monkeypatch.setenv('FAULT', 'die')
    with pytest.raises(prediction.Ended):
        predict(out, processes=1)
    (part,) = parts(out)
    pathlib.Path(f'{out}.parts', part).write_text('"id"\n100\n')
    predict(out)
    assert out.read_text().splitlines()[:3] == ['"id"', '100', '3']


def test_a_silent_process(out, monkeypatch):
    monkeypatch.setenv('FAULT', 'hang')
    with pytest.raises(prediction.Ended, match='has said nothing for') as ended:
        predict(out, timeout_secs=2)
    assert ended.value.code == 195


def test_a_process_that_says_why_it_fails(out, monkeypatch, capfd):
    monkeypatch.setenv('FAULT', 'refuse')
    with pytest.raises(prediction.Ended) as ended:
        predict(out)
    assert (ended.value.code, str(ended.value)) == (64, '')
    assert capfd.readouterr().err.splitlines()[-1] == 'error: --key=x: no such key'
    assert not os.path.exists(f'{out}.parts')  # nothing has been done


def test_parts_of_another_prediction(out, monkeypatch):
    monkeypatch.setenv('FAULT', 'die')
    with pytest.raises(prediction.Ended):
        predict(out)
    other = dataclasses.replace(SMALL, key='other')
    with pytest.raises(UsageError, match='--key was id and is other. Remove that folder'):
        predict(out, other)
    for name in parts(out):
        os.unlink(f'{out}.parts/{name}')
    predict(out, other)  # nothing would be lost
    assert out.read_text() == EXPECTED


def test_a_result_that_is_there(out):
    out.write_text('something')
    with pytest.raises(UsageError, match='is there already'):
        predict(out)
    assert out.read_text() == 'something' and parts(out) is None


def test_a_folder_of_somebody_else(out):
    folder = pathlib.Path(f'{out}.parts')
    folder.mkdir()
    (folder / 'letters').touch()
    with pytest.raises(UsageError, match='holds files and no plan'):
        predict(out)
    assert (folder / 'letters').exists()


def test_an_index_that_a_killed_process_was_writing_keeps_nothing(out, monkeypatch):
    left = '0123456789abcdef-a.tfrecord.index.1a2b3c4d.estimator_trainer'
    folder = pathlib.Path(f'{out}.parts')
    folder.mkdir()
    (folder / left).touch()  # as earlier versions left it when all was done
    monkeypatch.setenv('FAULT', 'die')
    with pytest.raises(prediction.Ended):
        predict(out)
    (folder / left).touch()
    (folder / left.partition('.1a')[0]).touch()
    predict(out)
    assert out.read_text() == EXPECTED and not folder.exists()


@pytest.mark.parametrize('name', ['letters.tmp', 'part-1.tmp', 'old/part-000000.csv'])
def test_files_of_somebody_else_stay(out, name):
    mine = pathlib.Path(f'{out}.parts', name)
    mine.parent.mkdir(parents=True)
    mine.touch()
    with pytest.raises(UsageError, match='holds files and no plan'):
        predict(out)
    assert mine.exists()


def test_files_of_somebody_else_stay_when_all_is_done(out, monkeypatch):
    monkeypatch.setenv('FAULT', 'die')
    with pytest.raises(prediction.Ended):
        predict(out)
    folder = pathlib.Path(f'{out}.parts')
    (folder / 'letters').touch()
    (folder / 'part-000001.csv.7.tmp').touch()  # of a process that was killed
    (folder / 'old').mkdir()
    predict(out)
    assert out.read_text() == EXPECTED and sorted(os.listdir(folder)) == ['letters', 'old']


def test_two_commands_at_once(out):
    os.mkdir(f'{out}.parts')
    with locks.Lock(f'{out}.parts/lock') as lock:
        assert lock.take()
        with pytest.raises(UsageError, match=f'process {os.getpid()} is at work'):
            predict(out)


def test_killed_before_the_folder_was_removed(out, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(prediction.removal, 'files_in', lambda *args: None)  # as if it had been killed there
        predict(out)
    assert parts(out)
    os.unlink(f'{out}.parts/{parts(out)[0]}')  # and had begun
    predict(out)
    assert out.read_text() == EXPECTED and parts(out) is None


def test_killed_while_it_joined(out, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(prediction.os, 'replace', _raise_for(str(out), os.replace))
        with pytest.raises(KeyboardInterrupt):
            predict(out)
    assert parts(out) and not out.exists()
    predict(out)
    assert out.read_text() == EXPECTED and parts(out) is None


def test_killed_when_all_is_joined_another_prediction_is_not_taken_for_done(out, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(prediction, '_remove', lambda folder: None)
        predict(out)
    assert parts(out) and out.read_text() == EXPECTED
    with pytest.raises(UsageError, match='is there already'):
        predict(out, dataclasses.replace(SMALL, key='other'))
    predict(out)
    assert out.read_text() == EXPECTED and parts(out) is None


def _raise_for(path, replace):
    def instead(source, target):
        if target == path:
            raise KeyboardInterrupt
        replace(source, target)

    return instead
