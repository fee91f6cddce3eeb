"""What is known of a run, as Prometheus's own parser reads it."""

import json
import math
import os
import pathlib
import re

import pytest

from estimator_trainer.monitoring import run_state
from estimator_trainer.monitoring.run_state import RunState

parser = pytest.importorskip('prometheus_client.parser', reason='prometheus-client is not installed')
collector = pytest.importorskip('estimator_trainer.monitoring.collector')

ROOT = pathlib.Path(__file__).parents[2]
NOW = 1_700_000_000.0
TRAINING = {
    'state': 'training',
    'step': 220,
    'max_steps': 400,
    'checkpoint_step': 200,
    'examples_per_sec': 4480.5,
    'input_wait_secs': 1.5,
    'peer_wait_secs': 0.25,
    'peer_silence_secs': {'worker:1': 0.0, 'ps:0': 12.5},
    'generation': '1-abc',
    'pid': os.getpid(),
}
EVERYTHING = RunState(
    '/runs/"a"\\b\n',
    NOW,
    {'job': 'mnist', 'loop': 'estimator', 'strategy': 'none', 'versions': {'tensorflow': '2.21.0'}},
    TRAINING,
    {'kind': 'train', 'step': 200, 'time': NOW, 'loss': 0.5},
    {'kind': 'eval', 'step': 150, 'time': NOW, 'accuracy': 0.75, 'loss': 0.5, 'per_class': [0.5, 1.0], 'bad': None},
    NOW - 30,
    'training',
    2,
    {'worker:0': 1 << 30, 'worker:1': None},
)
NAME = re.compile(r'\bestimator_trainer_[a-z_]+\b')


def parsed(now) -> dict:
    """name of a sample -> {labels: value}, by prometheus-client's parser."""
    text = collector.text(lambda: now).decode()
    found: dict = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.documentation and family.type in ('gauge', 'counter')
        for sample in family.samples:
            found.setdefault(sample.name.removeprefix('estimator_trainer_'), {})[
                ','.join(f'{name}={value}' for name, value in sorted(sample.labels.items()))
            ] = sample.value
    return found


def test_all_that_is_known():
    found = parsed(EVERYTHING)
    (labels,) = found.pop('info')
    assert labels.startswith('job=mnist,loop=estimator,model_dir=/runs/"a"\\b\n,strategy=none,tensorflow=2.21.0')
    assert math.isnan(found['evaluation'].pop('metric=bad'))
    assert found == {
        'state': {'state=training': 1},
        'step': {'': 220},
        'max_steps': {'': 400},
        'examples_per_second': {'': 4480.5},
        'loss': {'': 0.5},
        'evaluation': {'metric=accuracy': 0.75, 'metric=loss': 0.5},
        'evaluation_step': {'': 150},
        'checkpoint_step': {'': 200},
        'checkpoint_age_seconds': {'': 30},
        'restarts_total': {'': 2},
        'input_wait_seconds_total': {'': 1.5},
        'peer_wait_seconds_total': {'': 0.25},
        'peer_silence_seconds': {'peer=worker:1': 0, 'peer=ps:0': 12.5},
        'task_up': {'task=worker:0': 1, 'task=worker:1': 0},
        'resident_memory_bytes': {'task=worker:0': 1 << 30},
    }


def test_counters_and_gauges():
    text = collector.text(lambda: EVERYTHING).decode()
    kinds = {family.name: family.type for family in parser.text_string_to_metric_families(text)}
    counters = {name.removeprefix('estimator_trainer_') for name, kind in kinds.items() if kind == 'counter'}
    assert counters == {'restarts', 'input_wait_seconds', 'peer_wait_seconds'}


def test_what_is_not_known_is_left_out():
    assert set(parsed(RunState('/run', NOW))) == {'info'}


def test_a_loss_that_is_not_finite():
    (loss,) = parsed(EVERYTHING._replace(line={'loss': None}))['loss'].values()
    assert math.isnan(loss)


@pytest.fixture
def model_dir(tmp_path):
    def write(path, value):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(value) + '\n')

    write(tmp_path / 'training.json', TRAINING)
    write(tmp_path / 'metrics.jsonl', {'kind': 'train', 'step': 200, 'time': NOW, 'loss': 0.5})
    write(tmp_path / 'eval/metrics.jsonl', {'kind': 'eval', 'step': 150, 'time': NOW - 99, 'accuracy': 0.75})
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-200"\n')
    (tmp_path / 'model.ckpt-200.index').write_text('')
    os.utime(tmp_path / 'model.ckpt-200.index', (NOW, NOW))
    return tmp_path


def test_a_process_alone(model_dir):
    found = run_state.of_process(str(model_dir), 'trainer', NOW - 1)
    assert (found.training, found.line['loss'], found.evaluation['accuracy']) == (TRAINING, 0.5, 0.75)
    assert (found.checkpoint_at, found.state, found.restarts) == (NOW, 'training', None)
    assert found.resident['trainer'] > 1 << 20


def test_files_of_an_earlier_run_say_nothing_of_this_one(model_dir):
    (model_dir / 'training.json').write_text(json.dumps({**TRAINING, 'pid': 1}))
    found = run_state.of_process(str(model_dir), 'trainer', NOW + 1)
    assert (found.training, found.line, found.state) == ({}, {}, None)
    assert found.evaluation['accuracy'] == 0.75  # of a checkpoint that the run goes on from


def test_a_cluster(model_dir):
    tasks = [{'name': 'worker:0', 'pid': os.getpid()}, {'name': 'worker:1', 'pid': None}]
    status = {'generation': '1-abc', 'started': NOW - 1, 'state': 'stopping', 'restarts': 3, 'tasks': tasks}
    found = run_state.of_cluster(str(model_dir), status)
    assert (found.training, found.line['loss'], found.state, found.restarts) == (TRAINING, 0.5, 'stopping', 3)
    assert found.resident['worker:0'] > 1 << 20 and found.resident['worker:1'] is None
    assert run_state.of_cluster(str(model_dir), {**status, 'generation': '2-def'}).training == {}


def test_a_cluster_before_its_first_gang_and_an_empty_folder(tmp_path, model_dir):
    for folder in (model_dir, tmp_path / 'none'):
        found = run_state.of_cluster(str(folder), {})
        assert (found.training, found.line, found.state, found.resident) == ({}, {}, None, {})


@pytest.mark.parametrize('wrong', [[1], {'a': 1}, 'ten', True])
def test_values_of_the_wrong_type_are_left_out(wrong):
    training = dict.fromkeys(TRAINING, wrong)
    now = EVERYTHING._replace(
        training=training, config={'versions': wrong}, line={'loss': wrong}, evaluation={'step': wrong}, state=wrong
    )
    text = collector.text(lambda: now).decode()
    assert 'estimator_trainer_info{' in text and 'estimator_trainer_step ' not in text and '_loss' not in text


def test_the_dashboard_and_the_page_name_the_metrics_that_there_are():
    text = collector.text(lambda: EVERYTHING).decode()
    exported = {sample.name for family in parser.text_string_to_metric_families(text) for sample in family.samples}
    dashboard = (ROOT / 'deploy/grafana/estimator_trainer.json').read_text()
    page = (ROOT / 'docs/monitoring.md').read_text()
    shown = {
        name
        for panel in json.loads(dashboard)['panels']
        for target in panel.get('targets', ())
        for name in NAME.findall(target['expr'])
    }
    assert shown <= exported
    assert set(NAME.findall(page)) == exported
