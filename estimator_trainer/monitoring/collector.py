"""Turns what is known of a run into metrics of Prometheus, and leaves out what is not known. Pure."""

import contextlib
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import prometheus_client
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from estimator_trainer.monitoring.run_state import RunState
from estimator_trainer.run_dir import metrics_log, protocol

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST
_NAME = 'estimator_trainer'
_VERSION = None  # of a checkout
with contextlib.suppress(importlib.metadata.PackageNotFoundError):
    _VERSION = importlib.metadata.version('estimator-trainer')


class Collector:
    """A collector of prometheus-client.

    Args:
        read: () -> RunState, called at each scrape.
    """

    def __init__(self, read: Callable[[], RunState]):
        self._read = read

    def collect(self) -> Iterator[Metric]:
        return metrics(self._read())


def text(read: Callable[[], RunState]) -> bytes:
    """The text of a scrape."""
    return prometheus_client.generate_latest(Collector(read))


def metrics(now: RunState) -> Iterator[Metric]:
    """The metrics of a run."""
    training, line = now.training, now.line
    yield InfoMetricFamily(_NAME, 'The run, and the versions of what runs it.', value=_info(now))
    yield from _by_label(
        'state', 'The state of the run.', 'state', {now.state: 1} if isinstance(now.state, str) else {}
    )
    yield from _gauge('step', 'Global step: the last one that was finished.', training.get('step'))
    yield from _gauge('max_steps', 'Global step at which training ends.', training.get('max_steps'))
    yield from _gauge('examples_per_second', 'Examples trained per second.', training.get('examples_per_sec'))
    loss = float('nan') if line and line.get('loss') is None else line.get('loss')  # null: it is not finite
    yield from _gauge('loss', 'Loss of the step that was reported last.', loss)
    yield from _by_label('evaluation', 'Result of the last evaluation.', 'metric', _numbers(now.evaluation))
    yield from _gauge('evaluation_step', 'Global step of the last evaluation.', now.evaluation.get('step'))
    yield from _gauge('checkpoint_step', 'Global step of the last checkpoint.', training.get('checkpoint_step'))
    age = None if now.checkpoint_at is None else max(0.0, now.now - now.checkpoint_at)
    yield from _gauge('checkpoint_age_seconds', 'Time since the last checkpoint was written.', age)
    yield from _counter('restarts', 'Restarts of all tasks since the supervisor was started.', now.restarts)
    waits = 'Time that the steps of the chief have waited for {} since it was started.'
    yield from _counter('input_wait_seconds', waits.format('their batches'), training.get('input_wait_secs'))
    yield from _counter('peer_wait_seconds', waits.format('other workers'), training.get('peer_wait_secs'))
    silence = 'Time for which a task has not answered the chief.'
    yield from _by_label('peer_silence_seconds', silence, 'peer', training.get('peer_silence_secs'))
    up = {task: int(resident is not None) for task, resident in now.resident.items()}
    yield from _by_label('task_up', 'Whether the process of a task runs.', 'task', up)
    yield from _by_label('resident_memory_bytes', 'Memory that the process of a task holds.', 'task', now.resident)


def _info(now: RunState) -> dict[str, str]:
    versions = now.config.get('versions')
    labels = {
        'version': _VERSION,
        'tensorflow': versions.get('tensorflow') if isinstance(versions, Mapping) else None,
        'job': now.config.get('job'),
        'loop': now.config.get('loop'),
        'strategy': now.config.get('strategy'),
        'model_dir': now.model_dir,
    }
    return {name: str(value) for name, value in labels.items() if value}


def _numbers(line: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of an evaluation that are single numbers; null is one that is not finite."""
    values = {name: float('nan') if value is None else value for name, value in line.items()}
    return {
        name: value
        for name, value in values.items()
        if name not in metrics_log.NOT_METRICS and isinstance(value, float)
    }


def _gauge(name: str, help: str, value: Any) -> Iterator[Metric]:
    """`value`: of a JSON file. It is left out if it is no number."""
    if (number := protocol.real(value)) is not None:
        yield GaugeMetricFamily(f'{_NAME}_{name}', help, value=number)


def _counter(name: str, help: str, value: Any) -> Iterator[Metric]:
    if (number := protocol.real(value)) is not None:
        yield CounterMetricFamily(f'{_NAME}_{name}', help, value=number)


def _by_label(name: str, help: str, label: str, values: Any) -> Iterator[Metric]:
    """A gauge with a value for each value of a label. `values`: the object of a JSON file, if it is one."""
    family = GaugeMetricFamily(f'{_NAME}_{name}', help, labels=[label])
    for key, value in values.items() if isinstance(values, Mapping) else ():
        if (number := protocol.real(value)) is not None:
            family.add_metric([key], number)
    if family.samples:
        yield family
