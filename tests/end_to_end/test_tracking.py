"""A run whose tracker is down: it ends as without one, and what it could not send is sent later."""

import sys

import pytest
from launch import checked, metrics, processes_naming, run, trainer

pytest.importorskip('mlflow', reason='pip install ".[mlflow]"')

from tests.tools.track import mlflow_server


@pytest.mark.slow
def test_a_server_that_is_down_gets_everything_later(tmp_path):
    model_dir = tmp_path / 'run'
    server = mlflow_server.Server()
    server.close()
    flags = [
        '--job=tests.end_to_end.linear_job:job',
        '--log_every_steps=10',
        '--eval_steps=1',
        f'--model_dir={model_dir}',
        f'--track=mlflow:{server.uri}',
    ]
    first = trainer(*flags, '--max_steps=20')
    assert f'python -m estimator_trainer track {model_dir}' in first.output
    server = mlflow_server.Server(server.server_port)
    try:
        trainer(*flags, '--max_steps=40')  # it sends for ten seconds at most, which a busy machine needs for an import
        checked(run([sys.executable, '-m', 'estimator_trainer', 'track', model_dir]))
        assert [found['info']['status'] for found in server.runs.values()] == ['FINISHED']
        (sent,) = server.runs.values()
        steps = sorted(step for name, step, _ in set(sent['points']) if name == 'train/loss')
        assert steps == [line['step'] for line in metrics(model_dir, 'train')] == [10, 20, 30, 40]
    finally:
        server.close()
    assert processes_naming(model_dir) == []
