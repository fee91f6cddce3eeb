"""What a tracker can do, how it says that it cannot, and the adapters of Weights & Biases and of TensorBoard's HParams.

`mlflow_tracker.py` is that of MLflow. A library is imported when a run is sent to its tracker.
"""

import contextlib
import importlib
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from estimator_trainer.config import declaration, urls
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.monitoring import trackers
from estimator_trainer.run_dir import files
from estimator_trainer.run_dir.run_folder import RunFolder

RUNNING, FINISHED, FAILED, KILLED = 'RUNNING', 'FINISHED', 'FAILED', 'KILLED'  # how a run is
FOLDER = 'track'  # in the model_dir: what was sent, and what a library keeps on disk
_LONGEST = 300  # characters of a library's message
_MODULES = {
    trackers.MLFLOW: 'estimator_trainer.tools.track.mlflow_tracker',
    trackers.WANDB: 'wandb',
    trackers.HPARAMS: 'tensorboard.plugins.hparams.summary_v2',
}
_WANDB_INIT_SECS = 30
_LONGEST_ARTIFACT = 128  # characters of its name, which are ASCII
_OF_THE_RUN = ('job', 'loop', 'dataset', 'seed', 'strategy', 'global_batch_size', 'num_replicas')
_NOT_PARAMS = (
    *('param', 'model_dir', 'scratch_dir', 'allow_config_change', 'report', 'track', 'data_dir', *_OF_THE_RUN),
    *('intra_op_threads', 'inter_op_threads'),  # the supervisor gives them
)


class TrackerUnavailable(Exception):
    """The tracker cannot be reached, or does not do what it should. Worth another try later."""


class ExportFailed(TrackerUnavailable):
    """An export was not sent, and all else was."""


class EntryDeleted(Exception):
    """The entry was deleted there."""


class TrackerRefused(Exception):
    """The tracker will never take this. The rest goes on without it."""


class MetricsLine(NamedTuple):
    """A line of metrics. `values` have names such as 'train/loss', and are finite; `time`: seconds since the epoch."""

    kind: str
    step: int
    time: float
    values: dict[str, float]


class TrackedRun(NamedTuple):
    """What an entry is made of.

    Attributes:
        key: finds an entry again whose making was interrupted.
        group: of runs: the name of the folder that the model_dir is in.
        began: seconds since the epoch.
        folder: the model_dir.
        address: its path, or the URL of which it is a copy.
        params: what was computed.
        tags: with what and where it was computed.
    """

    key: str
    name: str
    group: str
    began: float
    folder: str
    address: str
    params: dict[str, bool | int | float | str]
    tags: dict[str, str]


class Tracker(Protocol):
    """Every method raises TrackerUnavailable, and takes a bounded time where the library allows it.

    Attributes:
        confirms: what a method was given is at the tracker when it returns; otherwise it is when `end` returns.
    """

    confirms: bool

    def begin(self, run: TrackedRun, entry: str) -> str:
        """Continues `entry`, or makes one if that is ''. Its id. Raises EntryDeleted."""

    def lines(self, lines: Sequence[MetricsLine]) -> None:
        """Raises TrackerRefused, EntryDeleted."""

    def export(self, folder: str, name: str) -> None:
        """Keeps a SavedModel as an artifact. Raises TrackerRefused, EntryDeleted."""

    def end(self, status: str, at: float) -> None:
        """Nothing follows. With RUNNING the run goes on elsewhere."""


def make(target: trackers.Target) -> Tracker:
    """The adapter of a tracker. Raises TrackerUnavailable where its library cannot be used."""
    library = imported(target)
    if target.kind == trackers.MLFLOW:
        return library.MlflowTracker(target.uri)
    return WandbTracker() if target.kind == trackers.WANDB else HparamsTracker()


def imported(target: trackers.Target) -> Any:
    """The library of a tracker, of MLflow the adapter. Raises TrackerUnavailable where it cannot be imported."""
    return asked(importlib.import_module, _MODULES[target.kind])


def words_of(error: BaseException) -> str:
    """What an exception of a library says, as a part of a message: the system's words where these are the cause."""
    first = error
    while first.__cause__ or first.__context__:
        first = first.__cause__ or first.__context__
    if isinstance(first, OSError):
        return first.strerror or str(first) or type(first).__name__
    lines = str(error).strip().splitlines()
    return lines[0][:_LONGEST] if lines else type(error).__name__


def asked(call: Callable, *args: Any, **kwargs: Any) -> Any:
    """What a call of a library returns. Whatever it raises becomes TrackerUnavailable."""
    try:
        return call(*args, **kwargs)
    except TrackerUnavailable:  # its time is over
        raise
    except Exception as error:
        raise TrackerUnavailable(words_of(error)) from error


@contextlib.contextmanager
def bounded(secs: float) -> Iterator[None]:
    """Raises TrackerUnavailable in the block when the time is over. Main thread only."""

    def over(signum, frame):
        raise TrackerUnavailable(f'no answer within {secs:g} s')

    handler, timer = signal.signal(signal.SIGALRM, over), signal.setitimer(signal.ITIMER_REAL, secs)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def described(model_dir: str, address: str, key: str, began: float) -> TrackedRun:
    """The run as an entry of a tracker: its params are those of its job, what decides what it computes, and the flags
    that were given.

    Args:
        address: the URL of which the folder is a copy; '' if it is none.
        key, began: as TrackedRun has them.
    """
    run = RunFolder(model_dir)
    defaults = {flag.name: flag.default for flag in declaration.declared(TrainerConfig)}
    params = {name: run.config.get(name) for name in _OF_THE_RUN}
    for name, value in run.flags.items():
        value = tuple(value) if isinstance(value, list) else value
        if name not in _NOT_PARAMS and value != defaults.get(name, value):
            params[name] = value
    url = str(run.flags.get('model_dir', ''))  # of a run in a store; a folder may have been moved since
    address = address or (url if urls.is_url(url) else run.path)
    tags = {'model_dir': address}
    for group in ('versions', 'machine'):
        if isinstance(run.config.get(group), dict):
            tags |= {f'{group}.{name}': str(value) for name, value in run.config[group].items()}
    parent, name = os.path.split(address.rstrip('/'))
    return TrackedRun(
        key=key,
        name=name or 'run',
        group=os.path.basename(parent) or 'runs',
        began=began,
        folder=model_dir,
        address=address,
        params={name: _plain(value) for name, value in {**params, **run.params}.items() if value not in (None, '')},
        tags=tags,
    )


def _plain(value: Any) -> bool | int | float | str:
    if isinstance(value, (list, tuple)):
        return ','.join(map(str, value))
    return value if isinstance(value, (bool, int, float, str)) else str(value)


class WandbTracker:
    """A run in a project. WANDB_MODE=offline keeps it in the model_dir, for `wandb sync`. The library sends in the
    background, so that only the end of a session says that everything has arrived."""

    confirms = False

    def begin(self, run: TrackedRun, entry: str) -> str:
        self._name = run.name
        self._run = asked(self._begun, run, entry)
        return self._run.id

    def _begun(self, run: TrackedRun, entry: str):
        import wandb

        settings = wandb.Settings(
            init_timeout=_WANDB_INIT_SECS,
            reinit='create_new',  # one that went wrong before is left alone
            console='off',
            silent=True,
            disable_git=True,
            x_disable_stats=True,  # they would be of the process that sends
        )
        project = os.environ.get('WANDB_PROJECT') or re.sub(r'[/\\#?%:]', '_', run.group)
        about = {'project': project, 'name': run.name, 'dir': os.path.join(run.folder, FOLDER), 'settings': settings}
        begun = wandb.init(id=entry or run.key, resume='allow', **about)
        begun.config.update({**run.params, 'run': run.tags}, allow_val_change=True)
        for kind in ('train', 'eval'):  # a run that was resumed takes steps twice; W&B's own step cannot go back
            begun.define_metric(f'{kind}/*', step_metric=f'{kind}/step')
        return begun

    def lines(self, lines: Sequence[MetricsLine]) -> None:
        for line in lines:
            asked(self._run.log, {**line.values, f'{line.kind}/step': line.step, f'{line.kind}/time': line.time})

    def export(self, folder: str, name: str) -> None:
        import wandb

        kind = re.sub(r'[^\w\-.]', '_', name.split('/')[-2], flags=re.ASCII)
        called = re.sub(r'[^\w\-.]', '_', self._name, flags=re.ASCII)[: _LONGEST_ARTIFACT - len(kind) - 1]
        called = f'{called}-{kind}'[-_LONGEST_ARTIFACT:]
        artifact = asked(wandb.Artifact, called, 'model', metadata={'folder': name})
        asked(artifact.add_dir, folder)
        asked(self._run.log_artifact, artifact)

    def end(self, status: str, at: float) -> None:
        asked(self._run.finish, exit_code=0 if status in (FINISHED, RUNNING) else 1)


class HparamsTracker:
    """A file of events in the model_dir that says with which params its curves were made. TensorBoard finds the metrics
    itself, in the files of events that the run writes into the same folder and below it.

    The file is written whole each time: of several starts or ends in a file TensorBoard takes the first. TensorBoard
    reads the files of a folder in the order of their names, and leaves one for good when it finds a later one: behind
    the file of the training, this one would end the curves of a TensorBoard that is open.
    """

    confirms = True
    NAME = 'events.out.tfevents.0.hparams'

    def begin(self, run: TrackedRun, entry: str) -> str:
        from tensorboard.plugins.hparams import summary_v2

        self._folder, self._began = run.folder, run.began
        self._start = summary_v2.hparams_pb(run.params, trial_id=run.address, start_time_secs=run.began)
        self._write(self._start)
        return self.NAME

    def lines(self, lines: Sequence[MetricsLine]) -> None:
        pass  # the run's own files of events have them

    def export(self, folder: str, name: str) -> None:
        pass

    def end(self, status: str, at: float) -> None:
        from tensorboard.compat.proto import summary_pb2
        from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

        if status == RUNNING:
            return
        how = api_pb2.STATUS_SUCCESS if status == FINISHED else api_pb2.STATUS_FAILURE
        info = plugin_data_pb2.SessionEndInfo(status=how, end_time_secs=at)
        content = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(session_end_info=info))
        end = summary_pb2.Summary()
        end.value.add(tag=metadata.SESSION_END_INFO_TAG, metadata=content, tensor=metadata.NULL_TENSOR)
        self._write(self._start, end)

    def _write(self, *summaries) -> None:
        from tensorboard.compat.proto import event_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        events = [event_pb2.Event(wall_time=self._began, file_version='brain.Event:2')]
        events += [event_pb2.Event(wall_time=self._began, summary=each) for each in summaries]
        temporary = f'{self._folder}/.hparams.tmp'  # TensorBoard does not take it for a file of events
        with files.replacing(f'{self._folder}/{self.NAME}', temporary), files.create(temporary, 'wb') as file:
            writer = RecordWriter(file)
            for event in events:
                writer.write(event.SerializeToString())
