"""evaluation.exporters.BestExporter with an Estimator that only makes folders."""

import itertools
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import exporters
from estimator_trainer.run_dir import metrics_log

v1 = tf.compat.v1


class FakeEstimator:
    """Writes numbered folders, and notes what lay there at the time."""

    def __init__(self):
        self._numbers = itertools.count(1000)
        self.seen, self.checkpoints, self.fails = [], [], False

    def export_saved_model(self, folder, serving_input_fn, checkpoint_path):
        self.seen.append(saved_models(folder))
        if self.fails:
            raise RuntimeError('disk full')
        path = os.path.join(folder, str(next(self._numbers)))
        os.makedirs(path)
        exporters.removal.mark(path)  # as exporters.InOwnFolder does
        self.checkpoints.append(checkpoint_path)
        return path.encode()


def saved_models(folder):
    return sorted(name for name in os.listdir(folder) if name.isdigit()) if os.path.isdir(folder) else []


class Best:
    """One export/best folder; every evaluation is heard by a new exporter, as after a restart."""

    def __init__(self, folder, mode='max', restarts=True):
        self.folder, self.mode, self.restarts = str(folder), mode, restarts
        self.estimator, self.step = FakeEstimator(), 0
        self.exporter = self.make()

    def make(self, metric='accuracy'):
        return exporters.BestExporter(lambda: None, metric, self.mode)

    def hear(self, value, **others):
        self.step += 10
        exporter = self.make() if self.restarts else self.exporter
        return exporter.export(
            self.estimator,
            self.folder,
            f'model.ckpt-{self.step}',
            dict(accuracy=value, global_step=self.step, **others),
            False,
        )

    @property
    def best(self):
        with open(os.path.join(self.folder, 'best.json')) as file:
            return json.load(file)


@pytest.mark.parametrize('restarts', [True, False])
@pytest.mark.parametrize(
    'mode, values, exported, best',
    [
        ('max', [0.5, 0.6, 0.55, 0.6, 0.7], [1, 1, 0, 0, 1], 0.7),
        ('max', [0.7, 0.6, 0.5], [1, 0, 0], 0.7),
        ('min', [0.5, 0.6, 0.5, 0.4], [1, 0, 0, 1], 0.4),
        ('max', [float('nan'), 0.5, float('nan'), 0.6], [0, 1, 0, 1], 0.6),
        ('min', [float('nan'), 0.5, float('nan'), 0.6], [0, 1, 0, 0], 0.5),
        ('max', [float('inf'), 0.5, float('inf'), 0.6], [0, 1, 0, 1], 0.6),
        ('min', [0.5, float('-inf'), 0.4], [1, 0, 1], 0.4),
    ],
)
def test_only_a_better_model_is_exported(tmp_path, mode, values, exported, best, restarts):
    run = Best(tmp_path / 'best', mode, restarts)
    paths = [run.hear(value) for value in values]
    assert [path is not None for path in paths] == [bool(e) for e in exported]
    last = [path for path in paths if path][-1]
    step = 10 * (1 + max(index for index, e in enumerate(exported) if e))
    assert run.best == {
        'metric': 'accuracy',
        'mode': mode,
        'value': best,
        'step': step,
        'saved_model': os.path.basename(last),
    }
    assert saved_models(run.folder) == [os.path.basename(last)]
    assert run.estimator.checkpoints[-1] == f'model.ckpt-{step}'
    assert sorted(os.listdir(run.folder)) == sorted([os.path.basename(last), 'best.json'])


def test_a_model_whose_loss_is_not_finite_is_not_the_best(tmp_path):
    run = Best(tmp_path)
    assert [run.hear(value, loss=loss) is not None for value, loss in ((0.9, float('nan')), (0.5, 1.0))] == [
        False,
        True,
    ]
    assert run.hear(0.8, loss=float('inf')) is None and run.best['value'] == 0.5


def test_the_new_model_is_there_before_the_old_one_goes(tmp_path):
    run = Best(tmp_path)
    run.hear(0.5)
    run.hear(0.6)
    assert run.estimator.seen == [[], ['1000']]
    before = run.best
    run.estimator.fails = True
    with pytest.raises(RuntimeError):
        run.hear(0.7)
    assert (run.best, saved_models(tmp_path)) == (before, ['1001'])


def test_an_export_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Or a machine that loses its power may have removed the old model, and have half of the new one."""
    named, flush_tree = [], exporters.files.flush_tree
    monkeypatch.setattr(
        exporters.files, 'flush_tree', lambda path: (named.append(saved_models(tmp_path)), flush_tree(path))
    )
    exporters.InOwnFolder(FakeEstimator()).export_saved_model(str(tmp_path), lambda: None, checkpoint_path='x')
    assert (named, saved_models(tmp_path)) == ([[]], ['1000'])


@pytest.mark.parametrize('lost', ['best.json', 'saved_model', 'torn best.json'])
def test_a_record_or_model_that_is_gone_is_replaced(tmp_path, lost):
    run = Best(tmp_path)
    run.hear(0.9)
    if lost == 'saved_model':
        shutil.rmtree(tmp_path / run.best['saved_model'])
    elif lost == 'best.json':
        os.remove(tmp_path / 'best.json')
    else:
        (tmp_path / 'best.json').write_text('{"metric": "accu')
    assert exporters.best_so_far(str(tmp_path)) is None
    assert run.hear(0.5)
    assert run.best['value'] == 0.5 and saved_models(tmp_path) == [run.best['saved_model']]
    assert exporters.best_so_far(str(tmp_path)) == run.best


def test_another_metric_starts_anew(tmp_path):
    run = Best(tmp_path)
    run.hear(0.9)
    assert run.make('auc').export(run.estimator, run.folder, 'c', {'auc': 0.1, 'global_step': 1}, False)
    assert run.best['metric'] == 'auc' and len(saved_models(tmp_path)) == 1


def test_other_files_in_the_folder_stay(tmp_path):
    (tmp_path / 'notes').mkdir()
    (tmp_path / '77').mkdir()  # a SavedModel of another program
    exporters.removal.mark(str((tmp_path / '78').mkdir() or tmp_path / '78'))  # an older one of ours
    Best(tmp_path).hear(0.5)
    assert sorted(os.listdir(tmp_path)) == ['1000', '77', 'best.json', 'notes']


def test_a_missing_metric_names_those_there_are(tmp_path):
    with pytest.raises(ValueError, match="'auc'.*accuracy, global_step, loss"):
        Best(tmp_path).make('auc').export(
            FakeEstimator(), str(tmp_path), 'c', dict(loss=1.0, accuracy=0.5, global_step=3), False
        )


def test_a_metric_of_several_numbers_cannot_be_the_best(tmp_path):
    results = dict(loss=1.0, accuracy=np.array([0.5, 0.6]), global_step=3)
    with pytest.raises(UsageError, match=r"'accuracy', which has the shape \(2,\)"):
        Best(tmp_path).make('accuracy').export(FakeEstimator(), str(tmp_path), 'c', results, False)


@pytest.mark.parametrize(
    'kinds, names', [(('best', 'final'), ['best', 'final']), (('final',), ['final']), (('none',), [])]
)
def test_make(kinds, names):
    from estimator_trainer.jobs.mnist import job

    assert [exporter.name for exporter in exporters.make(kinds, job, lambda: None)] == names
    assert exporters.make(kinds, job, None) == []


def test_what_another_export_writes_into_the_folder_stays(tmp_path):
    """It may be another command, or a run whose evaluator exports there."""

    class Writes:
        def export_saved_model(self, folder, serving_input_fn, checkpoint_path, **options):
            os.makedirs(os.path.join(folder, '1700000000'))
            exporters.remove_unfinished(str(tmp_path))  # the other one ends first
            return os.path.join(folder, '1700000000').encode()

    for name in ('temp-1764040000/variables', 'temp-own-01234567', '1700000000'):
        (tmp_path / name).mkdir(parents=True)
    path = exporters.InOwnFolder(Writes()).export_saved_model(str(tmp_path), None, 'model.ckpt-7')
    assert path == str(tmp_path / '1700000001')
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ['1700000000', '1700000001', 'temp-1764040000', 'temp-own-01234567']
    killed = exporters.removal.claim(str(tmp_path / 'temp-own-89abcdef'))
    exporters.remove_unfinished(str(tmp_path))
    assert not os.path.exists(killed) and sorted(path.name for path in tmp_path.iterdir()) == left


def test_saved_models_of_others_stay_beside_the_best_one(tmp_path):
    (tmp_path / '5').mkdir()
    for name in ('6', '7'):
        exporters.removal.mark(str((tmp_path / name).mkdir() or tmp_path / name))
    exporters._remove_others(str(tmp_path), '7', None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ['5', '7']


def test_the_best_evaluation_of_an_earlier_program_counts(tmp_path):
    with tf.Graph().as_default(), v1.summary.FileWriter(str(tmp_path / 'eval')) as writer:
        for step, value in ((200, 0.5), (400, 0.8), (600, 0.7)):
            values = [v1.Summary.Value(tag='accuracy', simple_value=value)]
            writer.add_summary(v1.Summary(value=values), step)
    (tmp_path / 'export' / 'best' / '900').mkdir(parents=True)  # of the earlier program
    run = Best(tmp_path / 'export' / 'best')
    assert run.hear(0.79) is None and not (tmp_path / 'export' / 'best' / 'best.json').exists()
    assert run.hear(0.81) is not None and run.hear(0.805) is None
    assert run.best['value'] == 0.81 and (tmp_path / 'export' / 'best' / '900').is_dir()


@pytest.mark.parametrize('torn', [b'', b'\0\0\0', b'{"metric": "accu', b'\xff\xfe'])
def test_a_best_json_that_the_machine_has_torn_costs_no_better_model(tmp_path, torn):
    run = Best(tmp_path / 'export' / 'best')
    log = metrics_log.MetricsLog(str(tmp_path / 'eval/metrics.jsonl'))
    for step, value in ((10, 0.9), (20, 0.4)):
        log.write('eval', step, {'accuracy': value, 'loss': 1.0})
    run.hear(0.9)
    before = run.best
    (tmp_path / 'export/best/best.json').write_bytes(torn)
    assert not run.hear(0.4) and run.best == before
    assert saved_models(run.folder) == [before['saved_model']]
    assert run.hear(0.95)


def test_a_torn_best_json_makes_no_saved_model_of_others_ours(tmp_path):
    """It would be removed with the next better export."""
    run = Best(tmp_path / 'export' / 'best')
    metrics_log.MetricsLog(str(tmp_path / 'eval/metrics.jsonl')).write('eval', 10, {'accuracy': 0.9, 'loss': 1.0})
    run.hear(0.9)
    of_others = tmp_path / 'export/best/9999999999'
    of_others.mkdir()
    (tmp_path / 'export/best/best.json').write_bytes(b'')
    assert not run.hear(0.4) and run.hear(0.95)
    assert of_others.exists() and run.best['saved_model'] != of_others.name
