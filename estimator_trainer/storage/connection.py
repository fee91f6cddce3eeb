"""Connects to the object store of a URL: finds packages and credentials, and tests conditional writes."""

import contextlib
import datetime
import importlib.util
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from estimator_trainer.config import urls
from estimator_trainer.errors import UsageError
from estimator_trainer.storage import names, store_errors
from estimator_trainer.storage.store import Conflict, Store, StoreError, StoreRefused, StoreUnavailable

_REQUEST_SECS, _CONNECT_SECS = 60, 5  # of one request; to send needs 280 kB/s: two parts of 8 MiB, or 16 MiB at once
_RETRIES, _RETRY_SECS = 2, 10  # within one operation; the sender tries again later
# obstore asks for credentials anew five minutes before the end that it is told, and boto3 renews those of a role when
# fewer than fifteen minutes are left: what obstore has been given is then always valid.
_CREDENTIALS_TTL = datetime.timedelta(minutes=10)
_GOOGLE = (
    *('GOOGLE_APPLICATION_CREDENTIALS', 'GOOGLE_SERVICE_ACCOUNT', 'GOOGLE_SERVICE_ACCOUNT_PATH'),
    'GOOGLE_SERVICE_ACCOUNT_KEY',
)
_GCLOUD = '~/.config/gcloud/application_default_credentials.json'
_AZURE_ACCOUNT = 'AZURE_STORAGE_ACCOUNT_NAME'
_AZURE = (
    *('AZURE_STORAGE_ACCOUNT_KEY', 'AZURE_STORAGE_SAS_TOKEN', 'AZURE_STORAGE_SAS_KEY', 'AZURE_STORAGE_TOKEN'),
    *('AZURE_CLIENT_SECRET', 'AZURE_FEDERATED_TOKEN_FILE'),
)


def connect(url: str, environ: Mapping[str, str], flag: str = '--model_dir') -> Store:
    """The store of a URL, the value of that flag, after an object was written, replaced and deleted there.

    Raises:
        UsageError: a package is missing, no credentials are found, or the store refuses the object.
        StoreUnavailable: it does not answer.
    """
    store = open_for_reading(url, environ, flag)
    with usage_errors(url, flag):
        store.conditional = keeps_conditions(store)
    return store


def open_for_reading(url: str, environ: Mapping[str, str], flag: str = '--model_dir') -> Store:
    """The store of a URL, the value of that flag. Nothing is written, and nothing was asked yet.

    Raises:
        UsageError: a package is missing, or no credentials are found.
    """
    url = urls.normal(url)
    extra = urls.extra(url)
    missing = missing_package(extra)
    if missing:
        raise UsageError(
            f"{flag}={url}: the package {missing} is missing; install it with pip install 'estimator-trainer[{extra}]'."
        )
    return Store(_open(url, environ, flag), url)


def missing_package(extra: str) -> str | None:
    """The first package of an extra that is not installed."""
    packages = ('obstore', 'boto3') if extra == 's3' else ('obstore',)
    return next((name for name in packages if not importlib.util.find_spec(name)), None)


@contextlib.contextmanager
def usage_errors(url: str, flag: str) -> Iterator[None]:
    """Turns errors that only the user can mend into UsageError. Others name the server, if that is known."""
    try:
        yield
    except (StoreRefused, Conflict) as error:
        raise UsageError(f'{flag}={url}: {error}. Mend that, or name another folder.') from None
    except StoreUnavailable as error:
        is_late = isinstance(error, store_errors.CredentialsLate)
        if not is_late and re.search(r'credential|metadata|169\.254', error.reason, re.IGNORECASE):
            raise UsageError(f'{flag}={url}: no credentials are found ({error}). See docs/storage.md.') from None
        where = server(url, os.environ)
        raise StoreUnavailable(f'{error} ({where})' if where and not is_late else str(error), error.reason) from None


def keeps_conditions(store: Store) -> bool:
    """Whether a write whose condition is not met is refused. Some stores ignore conditions."""
    name = f'{names.PROBE}{secrets.token_hex(8)}'
    try:
        first = store.write(name, b'first', None)
        store.write(name, b'second', first)
        return _is_refused(lambda: store.write(name, b'third', None)) and _is_refused(
            lambda: store.write(name, b'third', first)
        )
    except StoreRefused as error:
        if 'NotImplemented' not in str(error):
            raise
        return False
    finally:
        with contextlib.suppress(StoreError):
            store.delete(name)


def _is_refused(write: Callable[[], Any]) -> bool:
    try:
        write()
    except Conflict:
        return True
    return False


def _open(url: str, environ: Mapping[str, str], flag: str) -> Any:
    from obstore.store import from_url

    options: dict[str, Any] = {}
    client: Any = {'timeout': f'{_REQUEST_SECS}s', 'connect_timeout': f'{_CONNECT_SECS}s'}
    if urls.extra(url) == 's3':
        options, endpoint = _s3(url, environ, flag)
        if endpoint.startswith('http://'):
            client['allow_http'] = True
    retries: Any = {'max_retries': _RETRIES, 'retry_timeout': datetime.timedelta(seconds=_RETRY_SECS)}
    try:
        return from_url(urls.quoted(url), client_options=client, retry_config=retries, **options)
    except Exception as error:  # of obstore, which has no class for it: a missing account name, a bad key file
        raise UsageError(f'{flag}={url}: {store_errors.reason(error)}. See docs/storage.md.') from None


def s3_endpoint(environ: Mapping[str, str]) -> tuple[str, str]:
    """The environment variable that names a server other than Amazon's, and its value; '' and '' without one."""
    for name in ('AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL'):
        if environ.get(name):
            return name, environ[name]
    return '', ''


def server(url: str, environ: Mapping[str, str]) -> str:
    """Which server is asked for that URL, for messages; '' where its library knows alone."""
    if urls.extra(url) != 's3':
        return ''
    variable, endpoint = s3_endpoint(environ)
    if endpoint:
        return f'the server is {endpoint} ({variable})'
    return "the server is Amazon's: AWS_ENDPOINT_URL is not set"


def _s3(url: str, environ: Mapping[str, str], flag: str) -> tuple[dict[str, Any], str]:
    """boto3 finds credentials and region, as it does for every other program; and the endpoint."""
    import boto3
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        session = boto3.Session()
        if session.get_credentials() is None:
            raise UsageError(
                f'{flag}={url}: no credentials are found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or '
                'AWS_PROFILE, or give this machine a role.'
            )
        provider = Boto3CredentialProvider(session, ttl=_CREDENTIALS_TTL)
    except BotoCoreError as error:
        raise UsageError(f'{flag}={url}: {error}; mend the configuration of AWS.') from None
    variable, endpoint = s3_endpoint(environ)
    if '@' in endpoint:  # it is not repeated here: logs are kept
        raise UsageError(f'{flag}={url}: {variable} holds a name or a password; leave it out.')
    if endpoint and not re.fullmatch(r'https?://[^/?#\s]+/?', endpoint):
        raise UsageError(
            f'{flag}={url}: {variable}={endpoint} names no server; give it as http://HOST:PORT or https://HOST, '
            'without the bucket.'
        )
    options = {'region': session.region_name or 'us-east-1', **({'endpoint': endpoint} if endpoint else {})}
    return {'credential_provider': provider, **options}, endpoint


def installed(environ: Mapping[str, str]) -> Iterator[str]:
    """One line for each kind of store, for `doctor`: its package, and where its credentials are. No store is asked."""
    for extra in dict.fromkeys(urls.EXTRAS.values()):
        schemes = ', '.join(f'{scheme}://' for scheme, own in urls.EXTRAS.items() if own == extra)
        missing = missing_package(extra)
        if missing:
            yield f'--model_dir {schemes}: {missing} is missing: pip install "estimator-trainer[{extra}]"'
        else:
            yield f'--model_dir {schemes}: installed; {_CREDENTIALS[extra](environ)}'


def _of_aws(environ: Mapping[str, str]) -> str:
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        found = boto3.Session().get_credentials()  # may ask the machine for its role, for about 2 s
    except BotoCoreError as error:
        return f'the configuration of AWS is wrong: {error}'
    variable, endpoint = s3_endpoint(environ)
    at = f'; server: {endpoint.rpartition("@")[2]} ({variable})' if endpoint else "; server: Amazon's"
    return (f'credentials: {found.method}' if found else 'no credentials found') + at


def _of_google(environ: Mapping[str, str]) -> str:
    given = [name for name in _GOOGLE if environ.get(name)]
    if given:
        return f'credentials: {given[0]}'
    return f'credentials: {_GCLOUD}' if os.path.exists(os.path.expanduser(_GCLOUD)) else _OF_MACHINE


def _of_azure(environ: Mapping[str, str]) -> str:
    if not environ.get(_AZURE_ACCOUNT):
        return f'{_AZURE_ACCOUNT} is not set'
    given = [name for name in _AZURE if environ.get(name)]
    return f'credentials: {given[0]}' if given else _OF_MACHINE


_OF_MACHINE = 'no credentials found but those that the machine may have, which a run asks for'
_CREDENTIALS = {'s3': _of_aws, 'gcs': _of_google, 'azure': _of_azure}
