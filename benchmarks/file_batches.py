"""Examples per second from TFRecord files: our exact order beside the pipelines that people write.

    python benchmarks/file_batches.py [--examples=400000] [--rounds=5]
    python benchmarks/file_batches.py --index [--records=10000000]

The first command reads examples of 13 numbers and 26 strings in batches of 512: by the usual pipeline (parse each
example, then batch), by the best plain one (interleave, shuffle, batch, parse whole batches), and by ours. Each has a
process of its own, ours with the allocator that the trainer sets up. They take turns in each round, while the others
are stopped; batches that were read ahead are used up before the time is taken. It prints medians, ratios, and resident
memory.

The second one makes an index of many small records, and prints its seconds and bytes; and how long it takes to the
first batch at the start of an epoch and at nine tenths of it.
"""

import argparse
import glob
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BATCH, FILES, WARM_SECS, SECS = 512, 8, 1.5, 3
PIPELINES = ('usual', 'best plain', 'ours, records', 'ours, blocks')


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument('--examples', type=int, default=400_000)
    flags.add_argument('--rounds', type=int, default=5)
    flags.add_argument('--index', action='store_true')
    flags.add_argument('--records', type=int, default=10_000_000)
    flags.add_argument('--serve', default='', help=argparse.SUPPRESS)
    flags.add_argument('--folder', default='', help=argparse.SUPPRESS)
    args = flags.parse_args()
    if args.serve:
        serve(args.serve, args.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        if args.index:
            measure_index(folder, args.records)
        else:
            compare(folder, args.examples, args.rounds)


def compare(folder, examples, rounds) -> None:
    write_examples(folder, examples)
    command = [sys.executable, __file__, f'--folder={folder}']
    servers = {
        name: subprocess.Popen(
            [*command, f'--serve={name}'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for name in PIPELINES
    }
    for server in servers.values():
        server.stdout.readline()  # it is ready
        server.send_signal(signal.SIGSTOP)
    rates, memory = {name: [] for name in PIPELINES}, {}
    for number in range(rounds + 1):
        for name, server in servers.items():
            server.send_signal(signal.SIGCONT)
            print('go', file=server.stdin, flush=True)
            rate, memory[name] = map(float, server.stdout.readline().split())
            server.send_signal(signal.SIGSTOP)
            if number:  # the first round warms up
                rates[name].append(rate)
    for server in servers.values():
        server.send_signal(signal.SIGCONT)
        server.stdin.close()
        server.wait(60)
    base = statistics.median(rates['best plain'])
    print(f'{examples:,} examples in {FILES} files, batches of {BATCH}, medians of {rounds} rounds in turn')
    for name in PIPELINES:
        rate = statistics.median(rates[name])
        print(f'{name:14} {rate:10,.0f} examples/s   {rate / base:5.2f} x the best plain one   {memory[name]:6.0f} MiB')


def serve(name, folder) -> None:
    """Reads for SECS seconds for each line of standard input; prints examples per second and resident MiB."""
    from estimator_trainer import compat
    from estimator_trainer.this_process import allocator

    if name.startswith('ours'):
        allocator.tune()
    compat.bring_up()
    batches = iter(pipeline(name, sorted(glob.glob(f'{folder}/*.tfrecord'))))
    next(batches)
    print('ready', flush=True)
    for _ in sys.stdin:
        batches_per_sec(batches, WARM_SECS)
        rate = BATCH * batches_per_sec(batches, SECS)
        pages = int(open('/proc/self/statm').read().split()[1])
        print(rate, pages * os.sysconf('SC_PAGE_SIZE') / 2**20, flush=True)


def batches_per_sec(batches, secs) -> float:
    began, count = time.perf_counter(), 0
    while (taken := time.perf_counter() - began) < secs:
        next(batches)
        count += 1
    return count / taken


def pipeline(name, files):
    import tensorflow as tf

    from estimator_trainer.data.files import FileSpec, file_batches

    features = spec()
    if name == 'usual':
        examples = tf.data.TFRecordDataset(files).map(lambda record: tf.io.parse_single_example(record, features))
        return examples.shuffle(10_000).repeat().batch(BATCH).prefetch(1)
    if name == 'best plain':
        records = tf.data.Dataset.from_tensor_slices(files).interleave(
            tf.data.TFRecordDataset, cycle_length=FILES, num_parallel_calls=tf.data.AUTOTUNE
        )
        batches = records.shuffle(10_000).repeat().batch(BATCH)
        return batches.map(
            lambda batch: tf.io.parse_example(batch, features), num_parallel_calls=tf.data.AUTOTUNE
        ).prefetch(tf.data.AUTOTUNE)
    params = {'batch_size': BATCH, 'seed': 1, 'start_step': 0}
    return file_batches(files, FileSpec(features), 'train', params, shuffle=name.partition(', ')[2])


def spec():
    import tensorflow as tf

    numbers = {f'n{i}': tf.io.FixedLenFeature([], tf.float32) for i in range(13)}
    return {**numbers, **{f'c{i}': tf.io.FixedLenFeature([], tf.string) for i in range(26)}}


def write_examples(folder, count) -> None:
    import numpy as np
    import tensorflow as tf

    generator = np.random.RandomState(0)
    records = []
    for _ in range(2000):  # repeated: making each one anew would take minutes
        features = {f'n{i}': {'float_list': {'value': [value]}} for i, value in enumerate(generator.normal(size=13))}
        features |= {
            f'c{i}': {'bytes_list': {'value': [b'%08x' % value]}}
            for i, value in enumerate(generator.randint(0, 10**6, 26))
        }
        made = {name: tf.train.Feature(**_lists(tf, value)) for name, value in features.items()}
        records.append(tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString())
    for file in range(FILES):
        with tf.io.TFRecordWriter(f'{folder}/{file}.tfrecord') as writer:
            for number in range(file * count // FILES, (file + 1) * count // FILES):
                writer.write(records[number % len(records)])


def _lists(tf, value):
    kinds = {'float_list': tf.train.FloatList, 'bytes_list': tf.train.BytesList}
    return {name: kinds[name](**values) for name, values in value.items()}


def measure_index(folder, count) -> None:
    from estimator_trainer import compat

    compat.bring_up()
    import tensorflow as tf

    from estimator_trainer.data.files import FileSpec, file_batches, index

    records = [
        tf.train.Example(
            features=tf.train.Features(feature={'x': tf.train.Feature(int64_list=tf.train.Int64List(value=[7**power]))})
        ).SerializeToString()
        for power in range(22)
    ]
    chosen = random.Random(0)  # lengths that vary, as those of real records do
    paths = [f'{folder}/{file}.tfrecord' for file in range(FILES)]
    for path in paths:
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(count // FILES):
                writer.write(chosen.choice(records))
    began = time.perf_counter()
    index.load_all(paths, 'tfrecord', False, None)
    made = time.perf_counter()
    index.load_all(paths, 'tfrecord', False, None)
    loaded = time.perf_counter()
    kept = sum(os.path.getsize(path) for path in glob.glob(f'{folder}/.*.index'))
    data = sum(os.path.getsize(path) for path in paths)
    print(f'{count:,} records, {data / 2**20:.0f} MiB in {FILES} files')
    print(f'index: made in {made - began:.1f} s, {kept:,} bytes; loaded in {loaded - made:.2f} s')
    spec_of = FileSpec({'x': tf.io.FixedLenFeature([], tf.int64)})
    for position in (0, 9 * count // 10) * 3:
        params = {'batch_size': BATCH, 'seed': 1, 'start_step': position // BATCH}
        began = time.perf_counter()
        next(iter(file_batches(paths, spec_of, 'train', params)))
        print(f'first batch at position {position:,}: {time.perf_counter() - began:.2f} s')


if __name__ == '__main__':
    main()
