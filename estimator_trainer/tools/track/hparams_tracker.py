"""TensorBoard's HParams: a file of events in the model_dir that says with which params its curves were made.

TensorBoard finds the metrics itself, in the files of events that the run writes into the same folder and below it.
"""

import os
from collections.abc import Sequence

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2, summary_v2
from tensorboard.summary.writer.record_writer import RecordWriter

from estimator_trainer.run_dir import files
from estimator_trainer.tools.track.tracker import FINISHED, RUNNING, MetricsLine, TrackedRun

# TensorBoard reads the files of a folder in the order of their names, and leaves one for good when it finds a later
# one. Behind the file of the training, this one would end the curves of a TensorBoard that is open.
NAME = 'events.out.tfevents.0.hparams'


class HparamsTracker:
    """The file is written whole each time: of several starts or ends in a file TensorBoard takes the first."""

    confirms = True

    def begin(self, run: TrackedRun, entry: str) -> str:
        self._path, self._began = os.path.join(run.folder, NAME), run.began
        self._start = summary_v2.hparams_pb(run.params, trial_id=run.address, start_time_secs=run.began)
        self._write(self._start)
        return NAME

    def lines(self, lines: Sequence[MetricsLine]) -> None:
        pass  # the run's own files of events have them

    def export(self, folder: str, name: str) -> None:
        pass

    def end(self, status: str, at: float) -> None:
        if status == RUNNING:
            return
        how = api_pb2.STATUS_SUCCESS if status == FINISHED else api_pb2.STATUS_FAILURE
        info = plugin_data_pb2.SessionEndInfo(status=how, end_time_secs=at)
        content = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(session_end_info=info))
        end = summary_pb2.Summary()
        end.value.add(tag=metadata.SESSION_END_INFO_TAG, metadata=content, tensor=metadata.NULL_TENSOR)
        self._write(self._start, end)

    def _write(self, *summaries) -> None:
        events = [event_pb2.Event(wall_time=self._began, file_version='brain.Event:2')]
        events += [event_pb2.Event(wall_time=self._began, summary=each) for each in summaries]
        temporary = f'{os.path.dirname(self._path)}/.hparams.tmp'  # TensorBoard does not take it for a file of events
        with files.replacing(self._path, temporary), files.create(temporary, 'wb') as file:
            writer = RecordWriter(file)
            for event in events:
                writer.write(event.SerializeToString())
