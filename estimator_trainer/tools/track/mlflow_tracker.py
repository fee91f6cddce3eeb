"""MLflow: a run in an experiment, on a server, in a SQLite file or in a folder."""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_SETTINGS = {  # of the library, which reads them when it is imported; the user's own come first
    'MLFLOW_HTTP_REQUEST_TIMEOUT': '30',
    'MLFLOW_HTTP_REQUEST_MAX_RETRIES': '0',  # the sender tries again itself
    'MLFLOW_DISABLE_TELEMETRY': 'true',  # nothing is sent but to the tracker that was named
    'MLFLOW_ALLOW_FILE_STORE': 'true',  # MLflow 3 asks for it before it writes into a folder
}
for _name, _value in _SETTINGS.items():
    os.environ.setdefault(_name, _value)

from mlflow import MlflowClient  # noqa: E402
from mlflow.entities import Metric, Param, RunTag  # noqa: E402
from mlflow.exceptions import MlflowException, RestException  # noqa: E402

from estimator_trainer.tools.track.adapters import (  # noqa: E402
    RUNNING,
    EntryDeleted,
    MetricsLine,
    TrackedRun,
    TrackerRefused,
    TrackerUnavailable,
    asked,
    words_of,
)

_log = logging.getLogger('estimator_trainer')
_KEY = 'estimator_trainer.run'  # the tag by which a run is found whose making was interrupted
_MOST_METRICS, _MOST_PARAMS = 1000, 100  # of one request
_LONGEST_NAME, _LONGEST_PARAM, _LONGEST_TAG = 250, 6000, 5000  # characters


class MlflowTracker:
    """MLflow keeps every value of a metric with its step and time, so that what is sent again is the same point."""

    confirms = True

    def __init__(self, uri: str):
        self._local = not uri.startswith('http')
        self._client = self._ask(MlflowClient, uri)
        self._run_id = ''

    def begin(self, run: TrackedRun, entry: str) -> str:
        try:
            there = self._ask(self._client.get_run, entry) if entry else self._make(run)
        except TrackerRefused as error:
            raise TrackerUnavailable(str(error)) from error
        self._refuse_deleted(there)
        self._run_id = there.info.run_id
        if there.info.status != RUNNING:
            self._ask(self._client.update_run, self._run_id, status=RUNNING)
        self._describe(run, there.data.params, there.data.tags)
        return self._run_id

    def lines(self, lines: Sequence[MetricsLine]) -> None:
        metrics = [
            Metric(_name_of(name), value, int(line.time * 1000), line.step)
            for line in lines
            for name, value in line.values.items()
        ]
        refusals = [
            refusal
            for first in range(0, len(metrics), _MOST_METRICS)
            for refusal in self._not_refused('metrics', metrics[first : first + _MOST_METRICS])
        ]
        if refusals:
            raise refusals[0]

    def export(self, folder: str, name: str) -> None:
        self._ask(self._client.log_artifacts, self._run_id, folder, name)

    def end(self, status: str, at: float) -> None:
        if status != RUNNING:
            self._ask(self._client.set_terminated, self._run_id, status, int(at * 1000))

    def _make(self, run: TrackedRun):
        name = os.environ.get('MLFLOW_EXPERIMENT_NAME') or run.group
        experiment = self._ask(self._client.get_experiment_by_name, name)
        try:
            ident = experiment.experiment_id if experiment else self._ask(self._client.create_experiment, name)
        except (TrackerUnavailable, TrackerRefused):  # another run has just made it
            experiment = self._ask(self._client.get_experiment_by_name, name)
            if experiment is None:
                raise
            ident = experiment.experiment_id
        interrupted = self._ask(self._client.search_runs, [ident], f"tags.`{_KEY}` = '{run.key}'", max_results=1)
        about = {'start_time': int(run.began * 1000), 'tags': {_KEY: run.key}, 'run_name': run.name}
        return interrupted[0] if interrupted else self._ask(self._client.create_run, ident, **about)

    def _describe(self, run: TrackedRun, sent_params: Mapping, sent_tags: Mapping) -> None:
        """MLflow keeps the first value of a param. Where a run goes on with another, a tag has the new one."""
        texts = {_name_of(name): str(value)[:_LONGEST_PARAM] for name, value in run.params.items()}
        changed = {name: value for name, value in texts.items() if sent_params.get(name, value) != value}
        tag_texts = {_name_of(name): value[:_LONGEST_TAG] for name, value in {**run.tags, **changed}.items()}
        params = [Param(name, value) for name, value in texts.items() if name not in sent_params]
        tags = [RunTag(name, value) for name, value in tag_texts.items() if sent_tags.get(name) != value]
        for what, values in (('params', params), ('tags', tags)):
            for first in range(0, len(values), _MOST_PARAMS):
                for refusal in self._not_refused(what, values[first : first + _MOST_PARAMS]):
                    _log.warning('WARNING: MLflow refuses one of the %s: %s; the rest is sent', what, refusal)

    def _not_refused(self, what: str, values: list) -> Iterator[TrackerRefused]:
        """Sends a batch without those of its values that MLflow refuses, for one of which it refuses the whole batch.
        Yields the refusals."""
        try:
            self._ask(self._client.log_batch, self._run_id, **{what: values})
        except TrackerRefused as refusal:
            self._refuse_deleted(self._ask(self._client.get_run, self._run_id))
            if len(values) == 1:
                yield refusal
                return
            half = len(values) // 2
            yield from self._not_refused(what, values[:half])
            yield from self._not_refused(what, values[half:])

    def _refuse_deleted(self, entry) -> None:
        if entry.info.lifecycle_stage == 'deleted':
            raise EntryDeleted

    def _ask(self, call: Callable, *args: Any, **kwargs: Any) -> Any:
        try:
            return asked(call, *args, **kwargs)
        except TrackerUnavailable as unavailable:
            error = unavailable.__cause__
            if isinstance(error, MlflowException):
                # A page of another server, or of a proxy, with code 404 says nothing of the run.
                is_of_mlflow = self._local or isinstance(error, RestException)
                if error.error_code == 'RESOURCE_DOES_NOT_EXIST' and is_of_mlflow:
                    raise EntryDeleted from error
                if error.error_code in ('INVALID_PARAMETER_VALUE', 'BAD_REQUEST'):
                    raise TrackerRefused(words_of(error)) from error
            raise


def _name_of(text: str) -> str:
    """What MLflow takes for a name. In a folder a name is a path: `a` and `a/b` cannot both be there."""
    group, slash, name = text.partition('/')
    return (re.sub(r'[^\w\-. :]', '_', group) + slash + re.sub(r'[^\w\-. :]', '_', name))[:_LONGEST_NAME]
