"""run_dir.training_file: what training.json holds."""

import json
import os
import threading
import time

import pytest

from estimator_trainer.run_dir import protocol, training_file


def write(file, *state):
    assert file.wait(file.begin(*state), 60)


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'training.json'


@pytest.fixture
def file(path):
    return training_file.TrainingFile(str(path.parent), 100, 'g1')


def test_all_that_it_holds(path, file):
    before = time.time()
    write(file, training_file.TRAINING, 8, 6, 12.5)
    told = json.loads(path.read_text())
    assert before <= told.pop('time') <= time.time()
    assert told == {
        'state': training_file.TRAINING,
        'why': None,
        'exit': None,
        'step': 8,
        'max_steps': 100,
        'pid': os.getpid(),
        'checkpoint_step': 6,
        'examples_per_sec': 12.5,
        'generation': 'g1',
        'beat': 1,
    }
    write(file, training_file.STARTING, None, None, None)
    told = json.loads(path.read_text())
    assert [told[key] for key in ('state', 'step', 'checkpoint_step', 'examples_per_sec', 'beat')] == [
        training_file.STARTING,
        None,
        None,
        None,
        2,
    ]
    assert os.listdir(path.parent) == ['training.json']


def test_a_start_that_finds_nothing_to_train_leaves_the_step_of_the_run(path, file):
    file.finish(training_file.ENDED, 'max_steps', 4688)
    write(file, training_file.EVALUATING, None, 4688, None)
    told = json.loads(path.read_text())
    assert (told['state'], told['why'], told['step']) == (training_file.ENDED, 'max_steps', 4688)
    write(file, training_file.EVALUATING, 4700, 4688, None)  # it has trained
    assert json.loads(path.read_text())['step'] == 4700


@pytest.mark.parametrize('state, why', [(training_file.ENDED, 'max_steps'), (training_file.STOPPED, None)])
def test_what_is_final_stays(path, file, state, why):
    file.finish(state, why)
    assert not path.exists()
    for beat in (1, 2):
        write(file, training_file.EVALUATING, 8, 6, None)
        told = json.loads(path.read_text())
        assert (told['state'], told['why'], told['step'], told['beat']) == (state, why, 8, beat)


def test_a_file_that_cannot_be_written_stops_nobody(path, file):
    path.mkdir()
    write(file, training_file.TRAINING, 8, 6, None)
    assert os.listdir(path.parent) == ['training.json']


def test_in_the_background_nobody_waits_and_the_last_content_is_written(path, monkeypatch):
    answers, written, write = threading.Event(), [], protocol.write_json

    def write_json(path, value, durable=False):
        answers.wait(60)
        written.append(value['step'])
        write(path, value, durable)

    monkeypatch.setattr(protocol, 'write_json', write_json)
    file = training_file.TrainingFile(str(path.parent), 100, 'g1')
    numbers = [file.begin('training', step, None, None) for step in range(5)]
    assert not file.wait(numbers[0], 0)
    answers.set()
    assert file.wait(numbers[-1], 60) and all(file.wait(number, 0) for number in numbers)
    assert written[-1] == 4 and len(written) <= 2  # the first, if its thread was quick, and the last
    assert protocol.read_json(str(path))['step'] == 4
    assert file.wait(file.begin('ended', 5, None, None), 60) and written[-1] == 5


def test_a_content_that_cannot_be_written_holds_up_nobody(path, monkeypatch):
    def write_json(path, value, durable=False):
        raise error

    monkeypatch.setattr(protocol, 'write_json', write_json)
    file = training_file.TrainingFile(str(path.parent), 100, 'g1')
    for error in (OSError('full'), TypeError('no JSON')):
        assert file.wait(file.begin('training', 1, None, None), 60)
