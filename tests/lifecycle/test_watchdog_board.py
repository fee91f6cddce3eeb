"""lifecycle.watchdog: what training.json says of a task."""

import json
import os
import types

import pytest

from estimator_trainer.run_dir import protocol, training_file
from tests.lifecycle.watched import CLOSING, EVALUATING, GRACE, INT, STARTING, STEP, TERM, TRAINING, Task


class Board:
    """A task whose training.json can be read."""

    def __init__(self, folder, phase=STARTING, **environ):
        self.path = folder / 'training.json'
        self.task = Task(phase, environ)
        self.task.watchdog.write_training_file(str(self.path.parent), 100)

    def read(self):
        return json.loads(self.path.read_text())


def test_the_board_says_what_is_known(tmp_path):
    keys = ('state', 'step', 'max_steps', 'checkpoint_step', 'examples_per_sec', 'generation', 'beat')
    board = Board(tmp_path, **{protocol.GENERATION: 'g1'})
    assert [board.read()[key] for key in keys] == [STARTING, None, 100, None, None, 'g1', 1]
    watchdog = board.task.watchdog
    watchdog.resumes_at(0)
    watchdog._write_training_file()
    assert [board.read()[key] for key in keys] == [STARTING, None, 100, None, None, 'g1', 2]
    watchdog.resumes_at(6)
    watchdog.trains_from(6)
    watchdog._write_training_file()
    assert [board.read()[key] for key in keys] == [TRAINING, 6, 100, 6, None, 'g1', 3]
    watchdog.stepped(8)
    watchdog.saved(7)
    watchdog.heard_rate(12.5)
    watchdog._write_training_file()
    assert [board.read()[key] for key in keys] == [TRAINING, 8, 100, 7, 12.5, 'g1', 4]


def test_the_board_tells_how_much_of_the_data_is_prepared(tmp_path):
    watchdog = Task().watchdog
    watchdog.write_training_file(str(tmp_path), None)
    for amount in (None, 7, None):
        watchdog.heard_prepared(amount)
        watchdog._write_training_file()
        assert protocol.read_json(tmp_path / 'training.json').get('prepared') == amount


def test_the_board_tells_of_waits_and_peers(tmp_path):
    board = Board(tmp_path)
    assert not {'input_wait_secs', 'peer_silence_secs'} & set(board.read())
    watchdog = board.task.watchdog
    watchdog.hear_waits(lambda: {'input_wait_secs': 1.5})
    watchdog._peers = types.SimpleNamespace(silences=lambda: {'worker:1': 0.5})
    watchdog._write_training_file()
    assert board.read()['input_wait_secs'] == 1.5 and board.read()['peer_silence_secs'] == {'worker:1': 0.5}


@pytest.mark.parametrize(
    'phase, state', [(STARTING, STARTING), (TRAINING, TRAINING), (CLOSING, TRAINING), (EVALUATING, EVALUATING)]
)
def test_states_of_the_board(tmp_path, phase, state):
    assert Board(tmp_path, phase).read()['state'] == state in training_file.STATES


@pytest.mark.parametrize('state, why', [(training_file.ENDED, 'max_steps'), (training_file.STOPPED, None)])
def test_what_is_final_stays(tmp_path, state, why):
    board = Board(tmp_path, TRAINING)
    board.task.watchdog.finish(state, why)
    board.task.watchdog.enter(EVALUATING)
    board.task.watchdog._write_training_file()
    told = board.read()
    assert (told['state'], told['why'], told['beat']) == (state, why, 3)


@pytest.mark.parametrize(
    'phase, end, state',
    [
        (STARTING, lambda task: task.signal(TERM), training_file.STOPPED),
        (EVALUATING, lambda task: task.signal(INT), training_file.STOPPED),
        (TRAINING, lambda task: task.signal(TERM).at(GRACE), TRAINING),  # not saved: a failure
        (TRAINING, lambda task: task.lose(True), TRAINING),
        (TRAINING, lambda task: task.at(STEP), TRAINING),
    ],
)
def test_how_the_board_ends(tmp_path, phase, end, state):
    board = Board(tmp_path, phase)
    codes = end(board.task).codes
    told = board.read()
    assert (told['state'], told['exit']['code']) == (state, *codes)
    assert told['exit']['message'] and told['step'] == board.task.watchdog.step


def test_without_a_board_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Task(TRAINING).watchdog.finish(training_file.ENDED)
    assert os.listdir(tmp_path) == []
