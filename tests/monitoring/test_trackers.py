"""--track: what it names, and what it refuses."""

import os

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.monitoring import trackers
from estimator_trainer.monitoring.trackers import Target


@pytest.mark.parametrize(
    'text, target',
    [
        ('wandb', Target('wandb')),
        ('tensorboard-hparams', Target('tensorboard-hparams')),
        ('mlflow:http://host:5000/base', Target('mlflow', 'http://host:5000/base')),
        ('mlflow:https://[::1]:5000', Target('mlflow', 'https://[::1]:5000')),
        ('mlflow:runs/mlflow', Target('mlflow', '/here/runs/mlflow')),
        ('mlflow:/a/b', Target('mlflow', '/a/b')),
        ('mlflow:file:///a/with%20blank', Target('mlflow', '/a/with blank')),
        ('mlflow:sqlite:///runs/m.db', Target('mlflow', 'sqlite:////here/runs/m.db')),
        ('mlflow:sqlite:////a/m.db', Target('mlflow', 'sqlite:////a/m.db')),
    ],
)
def test_what_is_named(monkeypatch, text, target):
    monkeypatch.setattr(os, 'getcwd', lambda: '/here')
    assert trackers.parse(text) == target
    assert trackers.parse(str(target)) == target, 'its own text means the same from every folder'


@pytest.mark.parametrize(
    'text, words',
    [
        ('mlfow:x', '--track=mlfow: no such tracker (did you mean mlflow?). There are mlflow:URI, wandb and'),
        ('', '--track=: no such tracker. There are'),
        ('mlflow', '--track=mlflow: says no place: name a server, such as mlflow:http://localhost:5000'),
        ('mlflow:http:///x', 'names no host'),
        ('mlflow:http://h:99999', 'the URI is malformed (Port out of range'),
        ('mlflow:http://h/?a=1', 'leave out what begins with ? or #'),
        ('mlflow:s3://bucket/x', '--track=mlflow:s3:…: is no place that MLflow is at'),
        ('mlflow:localhost:5000', '--track=mlflow:localhost:…: is no place that MLflow is at; name a server, such as'),
        ('mlflow:sqlite:x.db', 'names no file; write mlflow:sqlite:///runs/mlflow.db'),
        ('mlflow:file://elsewhere/a', 'names no folder here'),
        (f'mlflow:{__file__}', 'is a file; name a folder, or write mlflow:sqlite:///'),
        ('wandb:project', 'wandb takes nothing after its name; WANDB_PROJECT'),
        ('tensorboard-hparams:x', 'takes nothing after its name; leave it out'),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(UsageError) as caught:
        trackers.parse(text)
    assert words in str(caught.value)


@pytest.mark.parametrize('uri', ['http://me:hunter2@host:5000', 'https://hunter2@host', 'sqlite://me:hunter2@host/x'])
def test_a_password_is_refused_and_not_repeated(uri):
    with pytest.raises(UsageError) as caught:
        trackers.parse(f'mlflow:{uri}')
    assert 'MLFLOW_TRACKING_PASSWORD' in str(caught.value) and 'hunter2' not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        trackers.parse('mlflow:me:hunter2@host')
    assert 'hunter2' not in str(caught.value)


def test_packages_that_are_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(trackers, 'is_installed', lambda name: False)
    assert trackers.targets(['tensorboard-hparams', 'tensorboard-hparams']) == (Target('tensorboard-hparams'),)
    for text, cure in (
        ('wandb', "--track=wandb: needs wandb: pip install 'estimator-trainer[wandb]'"),
        ('mlflow:http://h', "needs mlflow: pip install 'estimator-trainer[mlflow]'"),
        ('mlflow:sqlite:////a', "pip install 'estimator-trainer[mlflow]' sqlalchemy alembic"),
    ):
        with pytest.raises(UsageError) as caught:
            trackers.targets([text])
        assert str(caught.value).endswith(cure)


def test_a_folder_with_the_name_of_a_package_is_none(monkeypatch, tmp_path):
    (tmp_path / 'a_package_that_nobody_has').mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not trackers.is_installed('a_package_that_nobody_has') and trackers.is_installed('json')
