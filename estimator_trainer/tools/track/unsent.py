"""What there is to send of a run. Changes nothing."""

import glob
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from estimator_trainer.config import declaration, urls
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.run_dir import protocol
from estimator_trainer.tools.track.tracking_state import FileProgress

FILES = {'metrics.jsonl': 'train', 'eval/metrics.jsonl': 'eval'}  # path -> what its metrics are called: train/loss
_BLOCK = 256 << 10
_ALL_OF = 2000  # lines of a file that are all sent
_NOT_METRICS = ('kind', 'step', 'time')
_OF_THE_RUN = ('job', 'loop', 'dataset', 'seed', 'strategy', 'global_batch_size', 'num_replicas')
_NOT_PARAMS = (
    *('param', 'model_dir', 'scratch_dir', 'allow_config_change', 'report', 'track', 'data_dir', *_OF_THE_RUN),
    *('intra_op_threads', 'inter_op_threads'),  # the supervisor gives them
)


class MetricsLine(NamedTuple):
    """A line of metrics. `values` have names such as 'train/loss', and are finite."""

    kind: str
    step: int
    time: float
    values: dict[str, float]


class Facts(NamedTuple):
    """What config.json says: `params` are what was computed, `tags` with what and where."""

    params: dict[str, bool | int | float | str]
    tags: dict[str, str]


def facts(model_dir: str, shown: str = '') -> Facts:
    """The params of a run are those of its job, what decides what it computes, and the flags that were given.

    Args:
        shown: the URL of which model_dir is a copy; '' if it is none.
    """
    config = protocol.read_json(os.path.join(model_dir, 'config.json'))
    given = _object(config, 'flags')
    url = str(given.get('model_dir', ''))  # of a run in a store; a folder may have been moved since
    defaults = {one.name: one.default for one in declaration.declared(TrainerConfig)}
    params = {name: config.get(name) for name in _OF_THE_RUN}
    for name, value in given.items():
        value = tuple(value) if isinstance(value, list) else value
        if name not in _NOT_PARAMS and value != defaults.get(name, value):
            params[name] = value
    params |= _object(config, 'params')
    tags = {'model_dir': shown or (url if urls.is_url(url) else model_dir)}
    for group in ('versions', 'machine'):
        tags |= {f'{group}.{name}': str(value) for name, value in _object(config, group).items()}
    return Facts({name: _plain(value) for name, value in params.items() if value not in (None, '')}, tags)


def is_another(path: str, sent: FileProgress) -> bool:
    """Whether the file is not the one of which `sent` tells: the run was begun anew."""
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
    try:
        file = open(path, 'rb')
    except FileNotFoundError:
        return
    with file:
        if not sent.position:
            sent.head = zlib.crc32(file.readline())
        file.seek(sent.position)
        while raw := file.readlines(_BLOCK):
            is_whole = raw[-1].endswith(b'\n')  # else it is still being written
            if not is_whole:
                del raw[-1]
            lines = []
            for text in raw:
                sent.position += len(text)
                line = _line(text, kind)
                if line is None:
                    continue
                sent.lines += 1
                sent.waiting = None
                if kind == 'eval' or is_sent(sent.lines, sent.last):
                    sent.last = sent.lines
                    lines.append(line)
                else:
                    sent.waiting = line._asdict()
            if not raw:
                return
            yield lines
            if not is_whole:  # what follows begins within that line
                return


def is_sent(number: int, last: int) -> bool:
    """Whether to send line `number` of a file, if `last` was the last one that was sent. Pure."""
    return number - last >= number / _ALL_OF


def waiting(sent: FileProgress) -> list[MetricsLine]:
    """The last line, if it was left out so far. From here on it counts as sent."""
    line, sent.waiting = sent.waiting, None
    if line is None:
        return []
    sent.last = sent.lines
    return [MetricsLine(**line)]


def exports(model_dir: str) -> list[str]:
    """The SavedModels that are whole, as paths in the model_dir."""
    found = glob.glob(f'{glob.escape(model_dir)}/export/*/*/saved_model.pb')
    folders = sorted(os.path.relpath(os.path.dirname(each), model_dir) for each in found)
    return [each for each in folders if os.path.basename(each).isdigit()]  # another name: still being written


def _line(text: bytes, kind: str) -> MetricsLine | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or type(found.get('step')) is not int or not _is_number(found.get('time')):
        return None
    values = {
        f'{kind}/{name}': float(value)
        for name, value in found.items()
        if name not in _NOT_METRICS and _is_number(value)
    }
    return MetricsLine(kind, found['step'], float(found['time']), values)


def _is_number(value) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _object(config: Mapping, name: str) -> dict:
    return config[name] if isinstance(config.get(name), dict) else {}


def _plain(value) -> bool | int | float | str:
    if isinstance(value, (list, tuple)):
        return ','.join(map(str, value))
    return value if isinstance(value, (bool, int, float, str)) else str(value)
