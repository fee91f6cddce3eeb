"""Of which files a tool needs the content."""

import pytest

from estimator_trainer.storage import needs
from estimator_trainer.storage.needs import Need

RUN = (
    *('checkpoint', 'config.json', 'metrics.jsonl', 'eval/metrics.jsonl', 'graph.pbtxt', 'logs/1/chief', '.probe-1'),
    *('model.ckpt-1.index', 'model.ckpt-1.data-00000-of-00001', 'model.ckpt-2.index'),
    *('model.ckpt-2.data-00000-of-00001', 'events.out.tfevents.1', 'eval_b/events.out.tfevents.1'),
    *('export/best/best.json', 'export/best/7/saved_model.pb', 'export/best/7/variables/variables.data-00000-of-00001'),
    *('track/mlflow.json', '.trainer.lease'),
)
DATA = 'model.ckpt-{}.data-00000-of-00001'


def whole(needed):
    return {name for name, need in needed.items() if need is Need.WHOLE}


def test_status_and_report():
    assert whole(needs.of_status(RUN, 'model.ckpt-2')) == {'config.json', 'checkpoint'}
    assert whole(needs.of_report(RUN, 'model.ckpt-2')) == {
        *('config.json', 'metrics.jsonl', 'eval/metrics.jsonl', 'model.ckpt-1.index', 'model.ckpt-2.index'),
        *('eval_b/events.out.tfevents.1', 'export/best/best.json', 'track/mlflow.json'),
    }


def test_the_newest_checkpoint():
    assert whole(needs.of_newest_checkpoint(RUN, 'model.ckpt-2')) == {
        *('checkpoint', 'config.json', 'metrics.jsonl', 'eval/metrics.jsonl', 'graph.pbtxt', 'track/mlflow.json'),
        *('model.ckpt-2.index', DATA.format(2)),
    }


def test_exports_and_tracking():
    assert whole(needs.of_exports(RUN, None)) == {'export/best/best.json', 'config.json'}
    assert 'export/best/7/saved_model.pb' in needs.of_exports(RUN, None)
    assert {'export/best/7/saved_model.pb', 'track/mlflow.json'} < whole(needs.of_tracking(RUN, None))


@pytest.mark.parametrize(
    'verify, only, data',
    [
        ('all', '', [DATA.format(1), DATA.format(2), 'export/best/7/variables/variables.data-00000-of-00001']),
        ('newest', '', [DATA.format(2)]),
        ('sizes', '', []),
        ('all', 'model.ckpt-1', [DATA.format(1), 'export/best/7/variables/variables.data-00000-of-00001']),
        ('newest', 'model.ckpt-1.index', [DATA.format(1)]),
    ],
)
def test_inspection(verify, only, data):
    found = needs.of_inspection(verify, only)(RUN, 'model.ckpt-2')
    assert sorted(found) == sorted(RUN)
    assert sorted(name for name in whole(found) if '.data-' in name) == sorted(data)
