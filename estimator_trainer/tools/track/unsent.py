"""What there is to send of a run. Changes nothing."""

import os
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from estimator_trainer.config import declaration, urls
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.run_dir import file_names, metrics_log
from estimator_trainer.run_dir.protocol import real, whole
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.track.tracker import MetricsLine
from estimator_trainer.tools.track.tracking_state import FileProgress

KINDS = {file_names.METRICS: 'train', file_names.EVALUATIONS: 'eval'}  # what their metrics are called: train/loss
_ALL_OF = 2000  # lines of a file that are all sent
_OF_THE_RUN = ('job', 'loop', 'dataset', 'seed', 'strategy', 'global_batch_size', 'num_replicas')
_NOT_PARAMS = (
    *('param', 'model_dir', 'scratch_dir', 'allow_config_change', 'report', 'track', 'data_dir', *_OF_THE_RUN),
    *('intra_op_threads', 'inter_op_threads'),  # the supervisor gives them
)


def params(run: RunFolder) -> dict[str, bool | int | float | str]:
    """The params of a run: those of its job, what decides what it computes, and the flags that were given."""
    defaults = {flag.name: flag.default for flag in declaration.declared(TrainerConfig)}
    values = {name: run.config.get(name) for name in _OF_THE_RUN}
    for name, value in run.flags.items():
        value = tuple(value) if isinstance(value, list) else value
        if name not in _NOT_PARAMS and value != defaults.get(name, value):
            values[name] = value
    return {name: _plain(value) for name, value in {**values, **run.params}.items() if value not in (None, '')}


def tags(run: RunFolder, address: str = '') -> dict[str, str]:
    """With what and where a run was computed.

    Args:
        address: the URL of which the folder is a copy; '' if it is none.
    """
    url = str(run.flags.get('model_dir', ''))  # of a run in a store; a folder may have been moved since
    values = {'model_dir': address or (url if urls.is_url(url) else run.path)}
    for group in ('versions', 'machine'):
        if isinstance(run.config.get(group), dict):
            values |= {f'{group}.{name}': str(value) for name, value in run.config[group].items()}
    return values


def is_another(path: str, sent: FileProgress) -> bool:
    """Whether the file is another one than `sent` describes: the run was begun anew."""
    if not sent.position:
        return False
    try:
        with open(path, 'rb') as file:
            return zlib.crc32(file.readline()) != sent.head or os.fstat(file.fileno()).st_size < sent.position
    except FileNotFoundError:
        return True


def blocks(path: str, kind: str, sent: FileProgress) -> Iterator[list[MetricsLine]]:
    """The lines that are to be sent, in blocks. Between two blocks `sent` says how far they go.

    The first 2,000 lines are all sent; of the later ones so many that 5,000,000 lines become about 18,000. All
    evaluations are sent. A line that was cut short is left out.

    Raises:
        OSError: the file is there and cannot be read.
    """
    if not sent.position and os.path.exists(path):
        with open(path, 'rb') as file:
            sent.head = zlib.crc32(file.readline())
    for block in metrics_log.blocks(path, sent.position):
        if block.end == sent.position:
            return
        lines = []
        for line in filter(None, (_line(entry, kind) for entry in block.lines)):
            sent.lines += 1
            sent.waiting = None
            if kind == 'eval' or is_sent(sent.lines, sent.last):
                sent.last = sent.lines
                lines.append(line)
            else:
                sent.waiting = line._asdict()
        sent.position = block.end
        yield lines


def is_sent(number: int, last: int) -> bool:
    """Whether to send line `number` of a file, if `last` was the last one that was sent. Pure."""
    return number - last >= number / _ALL_OF


def waiting(sent: FileProgress) -> list[MetricsLine]:
    """The last line, if it was left out so far. It counts as sent now."""
    line, sent.waiting = sent.waiting, None
    if line is None:
        return []
    sent.last = sent.lines
    return [MetricsLine(**line)]


def _line(entry: Mapping[str, Any], kind: str) -> MetricsLine | None:
    step, time = whole(entry.get('step')), real(entry.get('time'))
    if step is None or time is None:
        return None
    values = {f'{kind}/{name}': value for name, value in metrics_log.values_of(entry).items()}
    return MetricsLine(kind, step, time, values)


def _plain(value: Any) -> bool | int | float | str:
    if isinstance(value, (list, tuple)):
        return ','.join(map(str, value))
    return value if isinstance(value, (bool, int, float, str)) else str(value)
