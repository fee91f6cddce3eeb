"""Settings of TensorFlow's own file system for gs://, which programs under `compat run` use.

TensorFlow's client of Google's storage keeps what it knows of a file for 5 s by default. So if another process makes a
file longer, the file reads as if it were cut short. The client also tries a request that fails up to ten times, with
growing pauses, so a program whose upload is broken hangs for minutes. Both are settings in the environment, which the
client reads once.
"""

import importlib.metadata
from collections.abc import Iterator, Mapping, MutableMapping

SETTINGS = {'GCS_STAT_CACHE_MAX_AGE': '0', 'GCS_RETRY_CONFIG_MAX_RETRIES': '6'}  # about a minute
_HARM = {  # of more than that
    'GCS_STAT_CACHE_MAX_AGE': 'for so many seconds a file on gs:// that another process writes reads as if cut short',
    'GCS_RETRY_CONFIG_MAX_RETRIES': 'an upload to gs:// that is broken holds the program up for minutes',
}
_TENSORFLOW_IO = 'tensorflow-io'
_ITS_NEWEST = (2, 16)  # the newest TensorFlow that it was built for


def prepare(environ: MutableMapping[str, str]) -> None:
    """Chooses what the user has not chosen. Call it before TensorFlow is imported."""
    for name, value in SETTINGS.items():
        environ.setdefault(name, value)


def report(environ: Mapping[str, str], tensorflow: tuple[int, int]) -> Iterator[str]:
    """What works here, as the user's environment has it.

    Args:
        environ: after `prepare`.
        tensorflow: its version.
    """
    settings = ' '.join(f'{name}={environ.get(name, "")}' for name in SETTINGS)
    yield f'files of TensorFlow: gs:// works, with {settings}; a program without compat needs them in its environment'
    for name, harm in _HARM.items():
        if _number(environ.get(name)) > int(SETTINGS[name]):
            yield f'warning: {name}={environ.get(name)}: {harm}; unset it, or set {SETTINGS[name]}'
    try:
        version = importlib.metadata.version(_TENSORFLOW_IO)
        yield f'files of TensorFlow: s3:// and hdfs:// in a program that imports tensorflow_io ({version})'
    except importlib.metadata.PackageNotFoundError:
        if tensorflow <= _ITS_NEWEST:
            yield 'files of TensorFlow: s3:// and hdfs:// need the package tensorflow-io, which is not installed'
    if tensorflow > _ITS_NEWEST:
        newest, installed = ('.'.join(map(str, numbers)) for numbers in (_ITS_NEWEST, tensorflow))
        yield (
            f'cannot work: s3:// and hdfs:// as files of TensorFlow: tensorflow-io has builds up to TensorFlow '
            f"{newest}, and none for {installed}. The trainer's --model_dir takes s3:// without it"
        )


def _number(text: str | None) -> float:
    try:
        return float(text or 'inf')
    except ValueError:
        return float('inf')
