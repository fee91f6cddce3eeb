"""What --track names: trackers, and where they are. Imports none of them, and no TensorFlow."""

import hashlib
import importlib.util
import os
import urllib.parse
from collections.abc import Sequence
from typing import NamedTuple

from estimator_trainer.errors import UsageError, nearest

MLFLOW, WANDB, HPARAMS = 'mlflow', 'wandb', 'tensorboard-hparams'
SHAPES = f'{MLFLOW}:URI, {WANDB} and {HPARAMS}'
_NEEDED = {MLFLOW: ('mlflow',), WANDB: ('wandb',), HPARAMS: ()}
_DATABASE = ('sqlalchemy', 'alembic')  # what MLflow needs for SQLite
_NETWORK = ('http', 'https')
_SUCH_AS = 'such as mlflow:http://localhost:5000, or a folder, such as mlflow:runs/mlflow'


class Target(NamedTuple):
    """A tracker. Its text is a value of --track that means the same in every folder.

    Attributes:
        kind: MLFLOW, WANDB or HPARAMS.
        uri: of MLflow: http(s)://…, sqlite:///…, or the absolute path of a folder. '' of the others.
    """

    kind: str
    uri: str = ''

    def __str__(self) -> str:
        return f'{self.kind}:{self.uri}' if self.uri else self.kind

    @property
    def file_name(self) -> str:
        """A name of its own for the files that this package keeps about it."""
        return f'{self.kind}-{hashlib.sha256(self.uri.encode()).hexdigest()[:8]}' if self.uri else self.kind


def parse(text: str) -> Target:
    """Reads one value of --track.

    Raises:
        UsageError: there is no such tracker, or no such place for one.
    """
    kind, _, rest = text.partition(':')
    if kind not in _NEEDED:
        raise UsageError(f'--track={kind}: no such tracker{nearest(kind, _NEEDED)}. There are {SHAPES}.')
    if kind == MLFLOW:
        return Target(kind, _uri(rest))
    if rest:
        cure = 'WANDB_PROJECT and WANDB_ENTITY in the environment name the project' if kind == WANDB else 'leave it out'
        raise UsageError(f'--track={text}: {kind} takes nothing after its name; {cure}.')
    return Target(kind)


def targets(values: Sequence[str]) -> tuple[Target, ...]:
    """The trackers that --track names, each once, in order.

    Raises:
        UsageError: a value is wrong, or a package that it needs is not installed.
    """
    targets = tuple(dict.fromkeys(map(parse, values)))
    for target in targets:
        database = target.uri.startswith('sqlite:')
        missing = [name for name in (*_NEEDED[target.kind], *(_DATABASE if database else ())) if not is_installed(name)]
        if missing:
            extra = f"'estimator-trainer[{target.kind}]'"
            cure = ' '.join([extra, *_DATABASE] if database else [extra])
            raise UsageError(f'--track={target}: needs {" and ".join(missing)}: pip install {cure}')
    return targets


def is_installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None  # a folder of that name is none


def _uri(text: str) -> str:
    if not text:
        raise UsageError(f'--track={MLFLOW}: says no place: name a server, {_SUCH_AS}.')
    try:
        parts = urllib.parse.urlsplit(text)
        _ = parts.port  # raises, too
    except ValueError as error:
        raise UsageError(f'--track={MLFLOW}:…: the URI is malformed ({error}); name a server, {_SUCH_AS}.') from None
    if '@' in parts.netloc:  # never repeated, because the message may end in a log
        raise UsageError(
            f'--track={MLFLOW}:{parts.scheme}://…: has a user or a password in it. Leave them out, and set '
            'MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, in the environment.'
        )
    if parts.scheme in _NETWORK:
        if not parts.hostname:
            raise UsageError(f'--track={MLFLOW}:{text}: names no host; name a server, {_SUCH_AS}.')
        if parts.query or parts.fragment:
            raise UsageError(f'--track={MLFLOW}:{parts.scheme}://{parts.netloc}…: leave out what begins with ? or #.')
        return text
    if parts.scheme == 'sqlite':
        path = text.removeprefix('sqlite:///')
        if path in (text, ''):
            raise UsageError(f'--track={MLFLOW}:{text}: names no file; write mlflow:sqlite:///runs/mlflow.db.')
        return f'sqlite:///{os.path.abspath(os.path.expanduser(path))}'
    if parts.scheme == 'file':
        if parts.netloc not in ('', 'localhost') or not parts.path:
            raise UsageError(f'--track={MLFLOW}:{text}: names no folder here; write mlflow:file:///home/me/mlflow.')
        return os.path.abspath(urllib.parse.unquote(parts.path))
    first, colon, _ = text.partition('/')[0].partition(':')
    if colon:  # localhost:5000, s3://…, user:password@host
        raise UsageError(f'--track={MLFLOW}:{first}:…: is no place that MLflow is at; name a server, {_SUCH_AS}.')
    path = os.path.abspath(os.path.expanduser(text))
    if os.path.exists(path) and not os.path.isdir(path):
        raise UsageError(f'--track={MLFLOW}:{text}: is a file; name a folder, or write mlflow:sqlite:///{text}.')
    return path
