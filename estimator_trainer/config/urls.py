"""Checks the URL of a model_dir, and finds its scratch folder. Pure, except for the environment."""

import contextlib
import hashlib
import os
import re
from collections.abc import Mapping
from urllib.parse import quote, unquote, urlsplit

from estimator_trainer.errors import UsageError

EXTRAS = {'s3': 's3', 's3a': 's3', 'gs': 'gcs', 'az': 'azure', 'abfs': 'azure', 'abfss': 'azure'}  # by scheme
DATA_CACHE_MIB = 10240  # the default of --data_cache_mib


def is_url(model_dir: str) -> bool:
    """Whether the value of a flag is a URL, not a folder of this machine."""
    return '://' in model_dir


def check_here(folder: str, flag: str) -> None:
    """Raises UsageError if a flag that takes a folder of this machine has a URL."""
    if is_url(folder):
        raise UsageError(f'{flag}={folder}: is a URL; name a folder of this machine.')


def check_slashes(folder: str, flag: str) -> None:
    """Raises UsageError for 's3:/bucket/run' and 's3//bucket/run', which would be folders of this machine."""
    scheme = re.match(r'(\w+)(?::/|//)', folder)
    if scheme and scheme[1].lower() in EXTRAS and not is_url(folder):
        rest = folder[scheme.end() :].lstrip('/')
        raise UsageError(f'{flag}={folder}: a URL begins with two slashes, such as {scheme[1]}://{rest}.')


def normal(value: str) -> str:
    """The normal spelling of a URL: 'S3://bucket/a%20b/' -> 's3://bucket/a b'.

    A value that is no URL is returned as it is. Of a URL that `check` refuses, only the scheme is changed.
    """
    scheme, is_one, rest = value.partition('://')
    if not is_one:
        return value
    if not set('?#') & set(rest):
        place, slash, path = rest.partition('/')
        with contextlib.suppress(UnicodeDecodeError):
            rest = f'{place}{slash}{_escaped(unquote(path, errors="strict"))}'.rstrip('/')
    return f'{scheme.lower()}://{rest}'


def join(bucket: str, name: str) -> str:
    """The URL of an object."""
    return f'{bucket}/{_escaped(name)}'


def name(url: str) -> str:
    """The name of the object or folder in its bucket: 's3://bucket/a%20b/c/' -> 'a b/c'."""
    return unquote(urlsplit(url).path).strip('/')


def quoted(url: str) -> str:
    """The URL with its name quoted, as obstore needs it."""
    return f'{bucket(url)}/{quote(name(url))}'.rstrip('/')


def _escaped(path: str) -> str:
    """The path with the characters escaped that would have another meaning in a URL."""
    return re.sub(r'%(?=[0-9A-Fa-f]{2})|[?#]', lambda match: f'%{ord(match[0]):02X}', path)


def check(url: str, flag: str = '--model_dir', may_be_glob: bool = False) -> None:
    """Checks that a URL names a folder of a known kind of store.

    Args:
        url: the URL.
        flag: the flag that has it.
        may_be_glob: the URL may be a glob, in which `?` stands for a character. `?NAME=VALUE` is refused all the same.

    Raises:
        UsageError: it does not, or it holds a password or a query.
    """
    is_query = '#' in url or '=' in url.partition('?')[2] or '?' in url and not may_be_glob
    parts = urlsplit(url)
    if '@' in parts.netloc and (':' in parts.netloc.partition('@')[0] or not parts.scheme.startswith('abfs')):
        raise UsageError(  # it is not repeated here: logs are kept
            f'{flag}={parts.scheme}://...@...: holds a name or a password; leave it out. Credentials come from '
            'the environment or the files of the store (docs/storage.md).'
        )
    if parts.scheme == 'file':
        raise UsageError(
            f'{flag}={url}: name a folder of this machine by its path, such as {parts.path or "/data/run"}.'
        )
    if parts.scheme not in EXTRAS:
        known = ', '.join(f'{scheme}://' for scheme in EXTRAS)
        raise UsageError(f'{flag}={url}: {parts.scheme}:// is not known; use {known}, or a folder where it is mounted.')
    if is_query:
        raise UsageError(f'{flag}={parts.scheme}://{parts.netloc}{parts.path}: leave out what follows ? or #.')
    if not parts.netloc or not parts.path.strip('/'):
        raise UsageError(f'{flag}={url}: name a bucket and a folder in it, such as {parts.scheme}://bucket/run.')
    try:
        path = unquote(url.partition('://')[2].partition('/')[2], errors='strict')
    except UnicodeDecodeError:
        raise UsageError(f'{flag}={url}: what follows % is no UTF-8; write the characters, and %25 for %.') from None
    if any(segment in ('', '.', '..') for segment in path.rstrip('/').split('/')):
        raise UsageError(f'{flag}={url}: a folder in it is empty, . or ..; name it plainly.')
    if re.search(r'[\x00-\x1f\x7f]', path):
        raise UsageError(f'{flag}={url!r}: a folder in it has a control character; name another one.')


def extra(url: str) -> str:
    """The extra of this package that installs what the URL's store needs."""
    return EXTRAS[urlsplit(url).scheme]


def bucket(url: str) -> str:
    """'s3://bucket/some/run' -> 's3://bucket'."""
    parts = urlsplit(url)
    return f'{parts.scheme}://{parts.netloc}'


def scratch_dir(url: str, environ: Mapping[str, str], given: str = '', task: str = '') -> str:
    """The scratch folder of a run.

    Args:
        url: the model_dir.
        environ: the environment variables.
        given: the value of --scratch_dir; '' for a folder in the user's cache whose name is made from the URL.
        task: the name of a task, which has a subfolder; '' for the scratch folder itself.
    """
    if given:
        folder = os.path.abspath(os.path.expanduser(given))
    else:
        url = normal(url)
        readable = re.sub(r'[^A-Za-z0-9._-]+', '-', url)[-60:].strip('-.')
        exact = hashlib.sha256(url.encode()).hexdigest()[:12]
        folder = os.path.join(user_cache(environ), f'{readable}-{exact}')
    return os.path.join(folder, task) if task else folder


def user_cache(environ: Mapping[str, str]) -> str:
    """The folder of this user for files that can be fetched or made again."""
    cache = environ.get('XDG_CACHE_HOME') or os.path.join(os.path.expanduser('~'), '.cache')
    return os.path.join(os.path.abspath(cache), 'estimator_trainer')
