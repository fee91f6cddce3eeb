"""What W&B's library raises at any moment is TrackerUnavailable, which is tried again. The library is made here."""

import sys
import types

import pytest

from estimator_trainer.tools.track.adapters import MetricsLine, TrackerUnavailable, WandbTracker


class Failing:
    def log(self, values):
        raise RuntimeError('the connection is gone')

    def log_artifact(self, artifact):
        raise FileNotFoundError('the export was replaced')

    def finish(self, exit_code):
        raise RuntimeError('the connection is gone')


@pytest.fixture
def tracker(monkeypatch):
    monkeypatch.setitem(
        sys.modules, 'wandb', types.SimpleNamespace(Artifact=lambda *a, **k: types.SimpleNamespace(add_dir=print))
    )
    return WandbTracker()


@pytest.mark.parametrize(
    'call',
    [
        lambda tracker: tracker.lines([MetricsLine('train', 1, 1.0, {'loss': 0.5})]),
        lambda tracker: tracker.export('/export/best/7', 'export/best/7'),
        lambda tracker: tracker.end('FINISHED', 1.0),
    ],
)
def test_every_method_says_so(tracker, call):
    tracker._run, tracker._name = Failing(), 'a run'
    with pytest.raises(TrackerUnavailable, match='the connection is gone|the export was replaced'):
        call(tracker)


def test_an_artifact_has_a_name_that_is_ascii_and_short(tracker, monkeypatch):
    names = []
    made = types.SimpleNamespace(add_dir=print)
    monkeypatch.setattr(sys.modules['wandb'], 'Artifact', lambda name, *a, **k: names.append(name) or made)
    tracker._run, tracker._name = types.SimpleNamespace(log_artifact=print), 'größe' * 50
    tracker.export('/export/best/7', 'export/best/7')
    assert len(names[0]) == 128 and names[0].startswith('gr__e') and names[0].endswith('-best')
