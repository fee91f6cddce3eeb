"""The batches of the corpus. Each differs from all others, and each that is read is noted outside the graph.

A batch that is skipped, repeated or used twice changes the weights, and the list of those that were read.
"""

import os
import signal

import numpy as np
import tensorflow as tf

from estimator_trainer.data import pipeline

BATCH, TIME, DEPTH, BATCHES = 4, 5, 3, 256
ENDLESS = 10**6
_random = np.random.RandomState(0)
X = _random.normal(size=[BATCHES, BATCH, TIME, DEPTH]).astype(np.float32)
Y = (X.sum(axis=(2, 3)) / 4 + _random.normal(size=[BATCHES, BATCH]) / 4)[..., None].astype(np.float32)
IDS = _random.randint(0, 12, [BATCHES, BATCH, TIME])
WORDS = np.array([f'word{number}' for number in range(12)], object)[IDS]


class Record:
    """What a run has done, beside what it has written.

    Attributes:
        read: the numbers of the batches that training has read, in order.
        calls: what hooks of the job have seen, in order.
        runs: how many calls of a session have read batches.
        folder: the model_dir.
        earlier: a checkpoint to start with.
        stops_at: the batch at which this process is told to stop.
        fails_at: the batch that cannot be read.
        in_memory: whether steps may take their batches themselves. Nobody then notes which.
    """

    def __init__(self):
        self.begin('')

    def begin(self, folder, stops_at=None, fails_at=None, in_memory=False):
        self.folder, self.earlier, self.in_memory = folder, f'{folder}/earlier/before', in_memory
        self.read, self.calls, self.runs, self.stops_at, self.fails_at = [], [], 0, stops_at, fails_at

    def note_batch(self, number):
        number = int(number)
        self.read.append(number)
        if number == self.fails_at:
            raise RuntimeError(f'batch {number} cannot be read')
        if number == self.stops_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return np.int64(number)


RECORD = Record()


def first_batch(params) -> int:
    """Where the batches of a run begin."""
    return (params['start_step'] * params['global_batch_size'] + params['position_shift']) // params['batch_size']


def numbers(mode, params, input_context=None, last=ENDLESS):
    """The numbers of the batches, as a data set."""
    if mode != tf.estimator.ModeKeys.TRAIN:
        return tf.data.Dataset.range(2)
    data = tf.data.Dataset.range(first_batch(params), last)
    if input_context:
        data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)

    def noted(number):
        number = tf.numpy_function(RECORD.note_batch, [number], tf.int64)
        number.set_shape([])
        return number

    return unhurried(data.map(noted))


def unhurried(batches):
    """The same batches, each of which is read when a step asks for it, and not before."""
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    options.autotune.enabled = False
    return batches.with_options(options)


def input_of(make, last=ENDLESS):
    """An input_fn of batches make(number)."""

    def input_fn(mode, params, input_context=None):
        batches = numbers(mode, params, input_context, last).map(lambda number: make(number % BATCHES))
        is_endless = mode == tf.estimator.ModeKeys.TRAIN and last == ENDLESS
        return pipeline.carrying(batches, _carried(make, params, input_context) if is_endless else None)

    return input_fn


def _carried(make, params, input_context):
    """What lets a step take the batches itself; None: it may not."""
    if not RECORD.in_memory:
        return None
    replicas = input_context.num_replicas_in_sync if input_context else 1
    first, every = first_batch(params), tf.data.Dataset.from_tensors(np.arange(BATCHES))
    return pipeline.InMemory(
        every, BATCHES * 8, replicas, lambda held, number: make(tf.gather(held, (first + number) % BATCHES))
    )


def sequences(number):
    """[batch, time, depth] and [batch, 1]."""
    return tf.gather(X, number), tf.gather(Y, number)


def vectors(number):
    """[batch, depth] and [batch, 1]."""
    return tf.gather(X[:, :, 0], number), tf.gather(Y, number)


def images(number):
    """[batch, 6, 6, 2] and [batch, 1]."""
    return tf.gather(_IMAGES, number), tf.gather(Y, number)


def words(number):
    """{'ids': [batch, time], 'words': the same as strings, 'x': [batch, depth]} and [batch, 1]."""
    given = {'ids': tf.gather(IDS, number), 'words': tf.gather(WORDS.astype('S8'), number)}
    return {**given, 'x': tf.gather(X[:, :, 0], number)}, tf.gather(Y, number)


_IMAGES = np.random.RandomState(1).normal(size=[BATCHES, BATCH, 6, 6, 2]).astype(np.float32)
