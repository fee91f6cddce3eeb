"""The command itself: killed with -9 in the middle and started again, it gives every row once and in order."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pyarrow.parquet
import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.tools.predict import signature
from tests.storage import s3_server
from tests.tools.predict import models

ROOT = pathlib.Path(__file__).parents[3]
BOUND_SECS = 300
ROWS = 300


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Has `run`, a model_dir whose export waits from row 150 on as long as there is the file `hold`, and files."""
    folder = tmp_path_factory.mktemp('predict')
    models.estimator_export(folder, str(folder / 'hold'), ROWS // 2)
    models.write_tfrecords(folder, ROWS, 3)
    return folder


@contextlib.contextmanager
def started(folder, out, *argv):
    command = [
        *(sys.executable, '-m', 'estimator_trainer', 'predict', '--rows_per_part=10', '--batch_size=4'),
        *(f'--out={folder / out}', *argv),
    ]
    with open(folder / 'log', 'w+b') as log:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def predict(folder, out, *argv):
    """(exit code, what it wrote)."""
    with started(folder, out, *argv) as process:
        code = process.wait(BOUND_SECS)
    return code, (folder / 'log').read_text()


def processes_with(text) -> list:
    found = []
    for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
        with contextlib.suppress(OSError):
            if text in path.read_text(errors='replace'):
                found.append(path)
    return found


def wait_until(condition) -> None:
    deadline = time.monotonic() + BOUND_SECS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_every_row_once_and_in_order_whatever_is_killed(folder):
    flags = (f'--model_dir={folder / "run"}', f'--files={folder}/part-*.tfrecord', '--key=id')
    parts = folder / 'two.parquet.parts'
    (folder / 'hold').touch()
    with started(folder, 'two.parquet', *flags, '--processes=2') as process:
        wait_until(lambda: process.poll() is not None or list(parts.glob('part-*.parquet')))
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(BOUND_SECS) == -signal.SIGKILL, (folder / 'log').read_text()
    wait_until(lambda: not processes_with(str(parts)))  # none outlives the command
    (folder / 'hold').unlink()
    there = len(list(parts.glob('part-*.parquet')))
    assert 0 < there < ROWS // 10

    code, said = predict(folder, 'two.parquet', *flags, '--processes=2', '--batch_size=5')
    assert code == 64 and '--batch_size was 4 and is 5' in said
    code, said = predict(folder, 'two.parquet', *flags, '--processes=2')
    assert code == 0, said
    assert f'300 rows, {there * 10} of them predicted before' in said and 'export/final/' in said
    assert not parts.exists()
    code, said = predict(folder, 'one.jsonl', *flags)  # of a run that nobody kills
    assert code == 0, said

    rows = pyarrow.parquet.read_table(folder / 'two.parquet').to_pylist()
    assert rows == models.expected(ROWS)
    with open(folder / 'one.jsonl') as file:
        assert [json.loads(line) for line in file] == rows


@pytest.mark.slow
def test_from_a_store_into_it(folder, tmp_path, monkeypatch):
    boto3 = pytest.importorskip('boto3')
    with s3_server.serving(tmp_path) as environment:
        for name, value in {**environment, 'XDG_CACHE_HOME': str(tmp_path / 'cache')}.items():
            monkeypatch.setenv(name, value)
        bucket = boto3.resource('s3', endpoint_url=environment['AWS_ENDPOINT_URL']).create_bucket(Bucket='bucket')
        for path in [*folder.glob('part-*.tfrecord'), *(folder / 'run').rglob('*')]:
            if path.is_file():
                bucket.upload_file(str(path), f'a/{path.relative_to(folder)}')
        out = 's3://bucket/out/rows.jsonl'
        flags = ('--model_dir=s3://bucket/a/run', '--files=s3://bucket/a/part-*.tfrecord', '--key=id', f'--out={out}')
        code, said = predict(folder, 'none.jsonl', *flags)
        assert code == 0 and f'done: {out}' in said and 's3://bucket/a/run/export/final/' in said, said
        rows = bucket.Object('out/rows.jsonl').get()['Body'].read().decode().splitlines()
        assert [json.loads(row) for row in rows] == models.expected(ROWS)
        code, said = predict(folder, 'none.jsonl', *flags)
        assert code == 64 and f'--out={out}: is there already' in said
        assert not list((tmp_path / 'cache').rglob('*.jsonl*'))


def test_a_signature_of_a_fixed_number_of_examples(tmp_path):
    export = models.tensor_export(tmp_path / 'many', rows=32)
    with pytest.raises(UsageError, match='--batch_size=32, and a multiple of 32 examples; or export it with None'):
        signature.Model(export, batch_size=1024)
    assert signature.Model(export, batch_size=32).features and signature.Model(export).features
