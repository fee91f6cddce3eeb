"""Examples per second from TFRecord files in an object store beside those from local files.

    python benchmarks/store_batches.py [--examples=200000] [--rounds=3]

The store is moto's server on this machine, a Python program that takes processor time of its own. Each way to read has
a process of its own in each round, and they take turns: local files; a store with an empty cache and with a full one;
and a store whose files are larger than the cache, so that they are read by the block. Examples have 13 numbers and 26
strings, batches 512 of them. It prints the seconds to the first batch, and examples per second after it: medians.
"""

import argparse
import glob
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from benchmarks import file_batches  # noqa: E402
from tests.storage import s3_server  # noqa: E402

WAYS = ('local', 'store, empty cache', 'store, full cache', 'store, by the block')


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument('--examples', type=int, default=200_000)
    flags.add_argument('--rounds', type=int, default=3)
    flags.add_argument('--read', nargs=3, help=argparse.SUPPRESS)
    args = flags.parse_args()
    if args.read:
        read(*args.read)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / 'data').mkdir()
        file_batches.write_examples(str(folder / 'data'), args.examples)
        with s3_server.serving(folder) as environment:
            upload(environment, folder / 'data')
            compare(folder, {**os.environ, **environment}, args)


def compare(folder, environ, args) -> None:
    size = sum(path.stat().st_size for path in (folder / 'data').glob('*.tfrecord'))
    store, whole, half = f's3://{s3_server.BUCKET}/data', 10 * size, size // 2
    first, rates = ({way: [] for way in WAYS} for _ in range(2))
    for _ in range(args.rounds):
        for way in WAYS:
            if way == 'store, empty cache':
                shutil.rmtree(folder / 'cache', ignore_errors=True)
            files = folder / 'data' if way == 'local' else store
            cache = folder / ('half' if way == WAYS[-1] else 'cache')
            command = [sys.executable, __file__, '--read', files, cache, half if way == WAYS[-1] else whole]
            said = subprocess.run([*map(str, command)], env=environ, stdout=subprocess.PIPE, text=True, check=True)
            secs, rate = map(float, said.stdout.splitlines()[-1].split())
            first[way].append(secs)
            rates[way].append(rate)
    base = statistics.median(rates['local'])
    print(f'{args.examples:,} examples, {size / 2**20:.0f} MiB in {file_batches.FILES} files, --shuffle=blocks')
    for way in WAYS:
        rate = statistics.median(rates[way])
        print(
            f'{way:20} first batch {statistics.median(first[way]):5.1f} s (first round {first[way][0]:5.1f} s)   ',
            end='',
        )
        print(f'{rate:9,.0f} examples/s   {rate / base:5.2f} x local')


def read(folder, cache, most_bytes) -> None:
    """Prints the seconds to the first batch, and the examples per second after it."""
    from estimator_trainer import compat
    from estimator_trainer.this_process import allocator

    allocator.tune()
    compat.bring_up()
    from estimator_trainer.data.files import FileSpec
    from estimator_trainer.data.files import file_batches as batches_of
    from estimator_trainer.data.remote.cache import Cache

    spec, params = FileSpec(file_batches.spec()), {'batch_size': file_batches.BATCH, 'seed': 1, 'start_step': 0}
    began = time.perf_counter()
    files = f'{folder}/*.tfrecord'
    batches = iter(batches_of(files, spec, 'train', params, shuffle='blocks', cache=Cache(cache, int(most_bytes))))
    next(batches)
    secs = time.perf_counter() - began
    file_batches.batches_per_sec(batches, file_batches.WARM_SECS)
    print(secs, file_batches.BATCH * file_batches.batches_per_sec(batches, file_batches.SECS), flush=True)


def upload(environment, folder) -> None:
    import boto3

    s3 = boto3.client(
        's3',
        endpoint_url=environment['AWS_ENDPOINT_URL'],
        aws_access_key_id=environment['AWS_ACCESS_KEY_ID'],
        aws_secret_access_key=environment['AWS_SECRET_ACCESS_KEY'],
        region_name=environment['AWS_REGION'],
    )
    s3.create_bucket(Bucket=s3_server.BUCKET)
    for path in glob.glob(f'{folder}/*.tfrecord'):
        s3.upload_file(path, s3_server.BUCKET, f'data/{os.path.basename(path)}')


if __name__ == '__main__':
    main()
