"""MLflow: what a run becomes there, read back from a folder; and servers that misbehave."""

import contextlib

import pytest

pytest.importorskip('mlflow', reason='pip install ".[mlflow]"')

from mlflow.exceptions import INVALID_PARAMETER_VALUE, MlflowException

from estimator_trainer.monitoring import trackers
from estimator_trainer.tools.track import sending, track_command
from estimator_trainer.tools.track.adapters import FAILED, FINISHED, RUNNING, TrackerUnavailable
from estimator_trainer.tools.track.mlflow_tracker import MlflowClient
from tests.tools.track import a_run, mlflow_server

TIME = int(a_run.TIME * 1000)


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / 'group' / 'first'
    folder.parent.mkdir()
    a_run.make(folder)
    a_run.ended(folder)
    return folder


def there(store):
    """The runs of a folder of MLflow's, in the order in which they began."""
    client = MlflowClient(str(store))
    (experiment,) = [each for each in client.search_experiments() if each.name == 'group']
    return client, client.search_runs([experiment.experiment_id], order_by=['attributes.start_time'])


def test_a_folder_is_read_back(tmp_path, run, capsys):
    store = tmp_path / 'my store'
    assert track_command.main([str(run), f'--to=mlflow:{store}']) == 0
    client, (found,) = there(store)
    assert (found.info.run_name, found.info.status, found.info.end_time) == ('first', FINISHED, TIME + 300_500)
    assert found.data.params == {
        'job': 'mnist',
        'loop': 'estimator',
        'seed': '1',
        'learning_rate': '0.1',
        'optimizer': 'sgd',
        'nesterov': 'False',
        'max_steps': '300',
    }
    assert found.data.tags['model_dir'] == str(run) and found.data.tags['versions.tensorflow'] == '2.21.0'
    ident = found.info.run_id
    history = [(each.step, each.value, each.timestamp) for each in client.get_metric_history(ident, 'train/loss')]
    assert history == [(step, 100 / step, TIME + step * 1000) for step in (100, 200, 300)]
    assert found.data.metrics['eval/accuracy'] == 0.5 and found.data.metrics['eval/accuracy_baseline'] == 0.25
    (exported,) = store.glob(f'*/{ident}/artifacts/export/final/1700000300/saved_model.pb')
    assert exported.read_bytes() == b'a model'
    assert (
        capsys.readouterr().out == f'mlflow:{store}: the run is there as {ident}\nmlflow:{store}: everything is sent\n'
    )


def test_a_run_that_goes_on_goes_on_there(tmp_path, run):
    to = f'--to=mlflow:{tmp_path / "store"}'
    assert track_command.main([str(run), to]) == 0
    a_run.train(run, 250, 300, 400, later=1000)
    (run / 'config.json').write_text((run / 'config.json').read_text().replace('300', '400'))
    a_run.ended(run, 'stopped')
    assert track_command.main([str(run), to]) == 0
    client, (found,) = there(tmp_path / 'store')
    assert found.info.status == 'KILLED'
    assert found.data.params['max_steps'] == '300' and found.data.tags['max_steps'] == '400'
    steps = [each.step for each in client.get_metric_history(found.info.run_id, 'train/loss')]
    assert steps == [100, 200, 300, 250, 300, 400], 'what was trained twice is there twice, in the order of time'


def test_an_entry_is_found_again_whose_making_was_interrupted(tmp_path, run, monkeypatch):
    to = f'--to=mlflow:{tmp_path / "store"}'
    write = sending.protocol.write_json
    with monkeypatch.context() as killed:
        killed.setattr(
            sending.protocol, 'write_json', lambda path, value: None if value.get('entry') else write(path, value)
        )
        assert track_command.main([str(run), to]) == 0
    assert track_command.main([str(run), to]) == 0
    _, found = there(tmp_path / 'store')
    assert len(found) == 1


def test_one_that_was_deleted_there_begins_anew(tmp_path, run):
    to = f'--to=mlflow:{tmp_path / "store"}'
    track_command.main([str(run), to])
    client, (found,) = there(tmp_path / 'store')
    client.delete_run(found.info.run_id)
    assert track_command.main([str(run), to]) == 0
    client, (new,) = there(tmp_path / 'store')
    assert new.info.run_id != found.info.run_id and len(client.get_metric_history(new.info.run_id, 'train/loss')) == 3


def test_what_mlflow_refuses_does_not_keep_the_rest_from_it(tmp_path, run, monkeypatch, caplog):
    """One value, for which MLflow refuses its whole batch."""
    log_batch = MlflowClient.log_batch

    def refuse(client, run_id, metrics=(), params=(), tags=()):
        keys = {each.key for each in (*metrics, *params, *tags)}
        if keys & {'nesterov', 'versions.tensorflow', 'eval/accuracy_baseline'}:
            raise MlflowException('a bad value', INVALID_PARAMETER_VALUE)
        log_batch(client, run_id, metrics, params, tags)

    monkeypatch.setattr(MlflowClient, 'log_batch', refuse)
    assert track_command.main([str(run), f'--to=mlflow:{tmp_path / "store"}']) == 0
    _, (entry,) = there(tmp_path / 'store')
    assert 'nesterov' not in entry.data.params and entry.data.params['learning_rate'] == '0.1'
    assert 'versions.tensorflow' not in entry.data.tags and entry.data.tags['model_dir'] == str(run)
    assert 'eval/accuracy_baseline' not in entry.data.metrics and entry.data.metrics['eval/accuracy'] == 0.5
    assert [f'one of the {what}: a bad value' in caplog.text for what in ('params', 'tags')] == [True, True]


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv('MLFLOW_HTTP_REQUEST_TIMEOUT', '1')
    monkeypatch.setenv('MLFLOW_HTTP_REQUEST_MAX_RETRIES', '0')
    server = mlflow_server.Server()
    yield server
    server.close()


@contextlib.contextmanager
def a_sender(folder, server):
    target = trackers.parse(f'mlflow:{server.uri}')
    with sending.sender(str(folder), target, lambda line: None) as sender:
        yield sender


def sent(server):
    (found,) = server.runs.values()
    return sorted(set(found['points'])), found['info']['status']


POINTS = sorted(
    [('train/loss', step, TIME + step * 1000) for step in (100, 200, 300)]
    + [(f'eval/{name}', 300, TIME + 300_000) for name in ('accuracy', 'accuracy_baseline')]
)


@pytest.mark.parametrize(
    'does, words',
    [('fails', '500'), ('babbles', 'JSON'), ('hangs', 'timed out'), ('loses', 'Remote end closed|Connection aborted')],
)
def test_a_server_that_misbehaves_and_recovers(run, server, does, words):
    (run / 'export').rename(run / 'no-export')
    with a_sender(run, server) as sender:
        server.does = does
        for _ in range(2):
            with pytest.raises(TrackerUnavailable, match=words):
                sender.send(None, 0)
        server.does = 'answers'
        sender.send(None, 0)
        assert sent(server) == (POINTS, RUNNING)
        a_run.train(run, 400)
        server.does = does
        with pytest.raises(TrackerUnavailable, match=words):
            sender.send(FAILED, 0)
        server.does = 'answers'
        sender.send(FAILED, 0)
        assert sent(server) == (sorted([*POINTS, ('train/loss', 400, TIME + 400_000)]), FAILED)


def test_a_page_that_is_not_found_deletes_no_entry(run, server):
    (run / 'export').rename(run / 'no-export')
    with a_sender(run, server) as sender:
        sender.send(FINISHED, 0)
        answer, server.answer = server.answer, lambda what, given: (404, {})
        with pytest.raises(TrackerUnavailable):
            sender.send(FINISHED, 0)
        server.answer = answer
        sender.send(FINISHED, 0)
        assert len(server.runs) == 1
