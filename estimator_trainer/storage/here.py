"""Which stores a --model_dir can be in on this machine: packages and credentials, without asking a store."""

import os
from collections.abc import Iterator, Mapping

from estimator_trainer.config import urls
from estimator_trainer.storage import connection

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


def report(environ: Mapping[str, str]) -> Iterator[str]:
    """One line for each kind of store. Credentials are not shown, only where they are."""
    for extra in dict.fromkeys(urls.EXTRAS.values()):
        schemes = ', '.join(f'{scheme}://' for scheme, own in urls.EXTRAS.items() if own == extra)
        missing = connection.missing_package(extra)
        if missing:
            yield f'--model_dir {schemes}: {missing} is missing: pip install "estimator-trainer[{extra}]"'
        else:
            yield f'--model_dir {schemes}: installed; {_FOUND[extra](environ)}'


def _of_aws(environ) -> str:
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        found = boto3.Session().get_credentials()  # may ask the machine for its role, for about 2 s
    except BotoCoreError as error:
        return f'the configuration of AWS is wrong: {error}'
    variable, endpoint = connection.s3_endpoint(environ)
    at = f'; server: {endpoint.rpartition("@")[2]} ({variable})' if endpoint else "; server: Amazon's"
    return (f'credentials: {found.method}' if found else 'no credentials found') + at


def _of_google(environ) -> str:
    names = [name for name in _GOOGLE if environ.get(name)]
    if names:
        return f'credentials: {names[0]}'
    return f'credentials: {_GCLOUD}' if os.path.exists(os.path.expanduser(_GCLOUD)) else _THE_MACHINES


def _of_azure(environ) -> str:
    if not environ.get(_AZURE_ACCOUNT):
        return f'{_AZURE_ACCOUNT} is not set'
    names = [name for name in _AZURE if environ.get(name)]
    return f'credentials: {names[0]}' if names else _THE_MACHINES


_THE_MACHINES = 'no credentials found but those that the machine may have, which a run asks for'
_FOUND = {'s3': _of_aws, 'gcs': _of_google, 'azure': _of_azure}
