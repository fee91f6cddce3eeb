"""evaluation.wrong_answers: what eval/wrong.json has. The model is a list of answers."""

import base64
import json

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.evaluation import wrong_answers

LABELS = [3, 1, 0, 2, 2]


class Images:
    """Five images of one color each."""

    num_eval = len(LABELS)

    def eval_examples(self):
        for number, label in enumerate(LABELS):
            yield np.full([4, 4, 1], number, np.uint8), label

    def class_name(self, label):
        return f'class {label}'


class Answers:
    """An Evaluator that only predicts."""

    def __init__(self, *batches):
        self._batches = batches

    def predictions(self, checkpoint):
        assert checkpoint == 'model.ckpt-7'
        return list(self._batches)


def written(tmp_path, *batches, dataset=None):
    wrong_answers.write(dataset or Images(), str(tmp_path), Answers(*batches), 'model.ckpt-7', 7)
    path = tmp_path / 'eval' / 'wrong.json'
    return json.loads(path.read_text()) if path.exists() else None


def batch(answers, certainties):
    rows = [np.where(np.arange(4) == answer, sure, 0.0) for answer, sure in zip(answers, certainties)]
    return {'classes': np.array(answers), 'probabilities': np.array(rows)}


@pytest.fixture(autouse=True)
def folder(tmp_path):
    (tmp_path / 'eval').mkdir()


def test_the_wrong_answers_that_are_most_certain_come_first(tmp_path, monkeypatch):
    found = written(tmp_path, batch([3, 2], [0.9, 0.5]), batch([0, 0, 1], [0.9, 0.75, 0.625]))
    assert (found['step'], found['evaluated'], found['wrong']) == (7, 5, 3)
    keys = ('position', 'label', 'answer', 'probability')
    shown = [tuple(each[key] for key in keys) for each in found['examples']]
    assert shown == [(3, 'class 2', 'class 0', 0.75), (4, 'class 2', 'class 1', 0.625), (1, 'class 1', 'class 2', 0.5)]
    images = [tf.io.decode_png(base64.b64decode(each['png'])).numpy() for each in found['examples']]
    assert [image.shape for image in images] == [(4, 4, 1)] * 3 and [image.max() for image in images] == [3, 4, 1]
    monkeypatch.setattr(wrong_answers, 'MOST_SHOWN', 2)
    found = written(tmp_path, batch([3, 2], [0.9, 0.5]), batch([0, 0, 1], [0.9, 0.75, 0.625]))
    assert found['wrong'] == 3 and [each['position'] for each in found['examples']] == [3, 4]


def test_a_model_without_probabilities(tmp_path):
    found = written(tmp_path, {'classes': np.array([3, 1, 0, 2, 1])})
    assert found['wrong'] == 1 and found['examples'][0]['probability'] is None


@pytest.mark.parametrize('batches', [[{'logits': np.zeros([5, 4])}], [{'classes': np.zeros([5, 2])}], [np.zeros([5])]])
def test_a_job_that_predicts_no_classes_has_no_such_file(tmp_path, batches):
    assert written(tmp_path, *batches) is None


def test_what_cannot_be_shown_costs_nothing_else(tmp_path, caplog):
    class Hyperspectral(Images):
        def eval_examples(self):
            for label in LABELS:
                yield np.zeros([4, 4, 7], np.uint8), label

    caplog.set_level('INFO', 'estimator_trainer')
    assert written(tmp_path, batch([0] * 5, [0.5] * 5), dataset=Hyperspectral()) is None
    assert 'the page shows no wrong answers: InvalidArgumentError' in caplog.text


def test_a_file_that_cannot_be_written_costs_nothing_else(tmp_path, caplog):
    caplog.set_level('INFO', 'estimator_trainer')
    (tmp_path / 'eval' / 'wrong.json').mkdir()  # as a full disk would
    wrong_answers.write(Images(), str(tmp_path), Answers({'classes': np.array([0] * 5)}), 'model.ckpt-7', 7)
    assert 'the page shows no wrong answers: IsADirectoryError' in caplog.text


def test_a_large_set_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(wrong_answers, 'MOST_EXAMPLES', 4)
    assert written(tmp_path, {'classes': np.array([0] * 5)}) is None
