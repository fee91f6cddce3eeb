"""TensorBoard's HParams: its own reader lists the runs of a folder with params, metrics and how they ended."""

import json

import pytest
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from estimator_trainer.tools.track import track_command
from tests.tools.track import a_run


@pytest.fixture
def runs(tmp_path):
    """A folder of two runs; each has a file of events with its loss, and one with its accuracy."""
    for name, rate in (('first', 0.1), ('second', 0.2)):
        folder = tmp_path / name
        a_run.make(folder)
        a_run.ended(folder, 'ended' if name == 'first' else 'stopped')
        config = json.loads((folder / 'config.json').read_text())
        config['params']['learning_rate'] = rate
        (folder / 'config.json').write_text(json.dumps(config))
        for where, tag, value in ((folder, 'loss', rate), (folder / 'eval', 'accuracy', 1 - rate)):
            writer = EventFileWriter(str(where))
            summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(event_pb2.Event(step=300, wall_time=1.0, summary=summary))
            writer.close()
    return tmp_path


def listed(folder):
    """Name of a session -> (params, metrics, status), as the tab shows them."""
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(folder))
    context = backend_context.Context(base_plugin.TBContext(data_provider=provider))
    statuses = (api_pb2.STATUS_RUNNING, api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE)
    request = api_pb2.ListSessionGroupsRequest(allowed_statuses=statuses, slice_size=10)
    found = list_session_groups.Handler(RequestContext(), context, '', request).run()
    return {
        session.name: (
            {name: getattr(value, value.WhichOneof('kind')) for name, value in group.hparams.items()},
            {(each.name.group, each.name.tag): pytest.approx(each.value) for each in session.metric_values},
            session.status,
        )
        for group in found.session_groups
        for session in group.sessions
    }


def test_the_runs_of_a_folder(runs):
    for name in ('first', 'second'):
        for _ in range(2):  # the second time changes nothing
            assert track_command.main([str(runs / name), '--to=tensorboard-hparams']) == 0
    found = listed(runs)
    assert sorted(found) == ['first', 'second']
    params, metrics, status = found['first']
    assert params == {
        'job': 'mnist',
        'loop': 'estimator',
        'seed': 1.0,
        'learning_rate': 0.1,
        'optimizer': 'sgd',
        'nesterov': False,
        'max_steps': 300.0,
    }
    assert metrics == {('', 'loss'): 0.1, ('eval', 'accuracy'): 0.9}
    assert status == api_pb2.STATUS_SUCCESS and found['second'][2] == api_pb2.STATUS_FAILURE
    assert found['second'][0]['learning_rate'] == 0.2


def test_a_run_that_goes_on_runs_again(runs, monkeypatch):
    first = runs / 'first'
    a_run.ended(first, 'stopped')
    track_command.main([str(first), '--to=tensorboard-hparams'])
    assert listed(first)['.'][2] == api_pb2.STATUS_FAILURE
    a_run.ended(first)
    track_command.main([str(first), '--to=tensorboard-hparams'])
    assert listed(first)['.'][2] == api_pb2.STATUS_SUCCESS


def test_its_file_is_read_before_that_of_the_training(runs):
    """TensorBoard leaves a file for good when it finds a later one."""
    track_command.main([str(runs / 'first'), '--to=tensorboard-hparams'])
    names = sorted(path.name for path in (runs / 'first').glob('*tfevents*'))
    assert len(names) == 2 and names[0] == 'events.out.tfevents.0.hparams'
