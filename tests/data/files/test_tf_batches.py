"""data.files: the same examples in the same order, for every format, number of workers and interruption."""

import itertools
import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.data.files import batches, dataset, file_batches, open_source
from estimator_trainer.data.remote import patience
from estimator_trainer.data.remote.cache import Cache
from estimator_trainer.errors import BadExample, DatasetError, DatasetUnavailable, UsageError
from tests.data.files import written
from tests.storage import memory_store

SIZES = (31, 1, 40, 0, 7, 22, 50)
COUNT = sum(SIZES)
GLOBAL_BATCH = 12
STEPS = -(-2 * COUNT // GLOBAL_BATCH)
SHUFFLES = ('records', 'blocks', 'none')
IN_EACH_WAY = pytest.mark.parametrize(  # each format and each order once in the gate
    'ending, shuffle',
    [
        pytest.param(ending, shuffle, marks=() if ending == 'tfrecord' or shuffle == 'blocks' else pytest.mark.slow)
        for ending in written.FORMATS
        for shuffle in SHUFFLES
    ],
)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """The examples in 7 files, one of them empty, and in a single one, of every format."""
    made = tmp_path_factory.mktemp('files')
    for ending in written.FORMATS:
        (made / 'seven').mkdir(exist_ok=True)
        (made / 'one').mkdir(exist_ok=True)
        written.write(made / 'seven', ending, SIZES)
        written.write(made / 'one', ending, [COUNT])
    return made


def ids(files, ending, workers=1, start=0, steps=STEPS, shuffle='auto', cache=None):
    """The ids of each global batch."""
    params = {'batch_size': GLOBAL_BATCH // workers, 'seed': 3, 'start_step': start}
    pipelines = []
    for worker in range(workers):
        context = types.SimpleNamespace(
            num_input_pipelines=workers, num_replicas_in_sync=workers, input_pipeline_id=worker
        )
        data = file_batches(files, written.spec(ending), 'train', params, context, shuffle=shuffle, cache=cache)
        pipelines.append(iter(data.map(lambda features, labels: labels)))
    return [[int(i) for pipeline in pipelines for i in next(pipeline)] for _ in range(steps)]


@IN_EACH_WAY
def test_the_batches_are_the_same_for_any_number_of_workers_and_interruptions(folder, ending, shuffle):
    files = f'{folder}/seven/part-*.{ending}'
    alone = ids(files, ending, shuffle=shuffle)
    flat = list(itertools.chain(*alone))
    assert sorted(flat[:COUNT]) == sorted(flat[COUNT : 2 * COUNT]) == list(range(COUNT))
    if shuffle != 'none':
        assert flat[:COUNT] != flat[COUNT : 2 * COUNT]
    for workers in (2, 3):
        assert ids(files, ending, workers, shuffle=shuffle) == alone, workers
    interrupted = [ids(files, ending, 2, first, count, shuffle) for first, count in ((0, 5), (5, 9), (14, STEPS - 14))]
    assert list(itertools.chain(*interrupted)) == alone


@pytest.mark.parametrize('ending', written.FORMATS)
def test_one_file_for_three_workers(folder, ending):
    file = f'{folder}/one/part-0.{ending}'
    assert ids(file, ending, workers=3) == ids(file, ending)


def test_all_formats_have_the_order_of_arrays(folder):
    found = {tuple(map(tuple, ids(f'{folder}/seven/part-*.{e}', e, shuffle='records'))) for e in written.FORMATS}
    assert len(found) == 1


@pytest.mark.parametrize('ending', written.FORMATS)
def test_an_evaluation_has_each_example_once_in_order(folder, ending):
    params = {'batch_size': 25, 'seed': 1, 'start_step': 0}
    data = file_batches(f'{folder}/seven/part-*.{ending}', written.spec(ending), 'eval', params)
    assert data.cardinality() == -(-COUNT // 25)
    assert [int(i) for _, labels in data for i in labels] == list(range(COUNT))


@pytest.mark.parametrize('ending', written.FORMATS)
def test_examples_are_what_was_written(folder, ending):
    source = open_source(f'{folder}/seven/part-*.{ending}', written.spec(ending))
    wanted = [COUNT - 1, 3, 100, 3]
    found = source.batch(np.array(wanted))
    assert found['id'].numpy().tolist() == wanted
    assert found['s'].numpy().tolist() == [b's%d' % i for i in wanted]
    assert found['n'].numpy().tolist() == [written.DEFAULT if i % 5 == 0 else i for i in wanted]
    if ending.startswith('csv'):
        assert found['x0'].numpy().tolist() == [i / 2 for i in wanted]
        return
    np.testing.assert_allclose(found['x'].numpy(), [[i / 2, i / 3] for i in wanted], rtol=1e-6)
    assert tf.RaggedTensor.from_sparse(found['v']).to_list() == [list(range(i % 3)) for i in wanted]


def test_the_key_and_the_label_are_no_features(folder):
    params = {'batch_size': 8, 'seed': 1, 'start_step': 0}
    data = file_batches(f'{folder}/seven/part-*.parquet', written.spec('parquet'), 'train', params)
    features, labels = data.element_spec
    assert set(features) == {'x', 'v', 'n'}
    assert labels.dtype == tf.int64


@pytest.mark.parametrize('ending', ['tfrecord', 'csv', 'parquet'])
def test_in_a_graph_as_estimator_calls_it(folder, ending):
    params = {'batch_size': 8, 'seed': 3, 'start_step': 0}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        data = file_batches(f'{folder}/seven/part-*.{ending}', written.spec(ending), 'train', params, shuffle='blocks')
        _, labels = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
        found = [session.run(labels).tolist() for _ in range(5)]
    eager = ids(f'{folder}/seven/part-*.{ending}', ending, steps=4, shuffle='blocks')
    assert list(itertools.chain(*found))[:36] == list(itertools.chain(*eager))[:36]


@pytest.mark.parametrize('ending', ['tfrecord', 'csv', 'parquet'])
def test_a_source_that_was_opened_before_is_read_in_a_graph(folder, ending):
    """As the default loop does. The spec has defaults, and one of them is a tensor; the files have other columns."""
    spec = written.spec(ending)
    spec.features['n'] = tf.io.FixedLenFeature([], tf.int64, tf.constant(written.DEFAULT, tf.int64))
    spec.features['absent_value'] = spec.features['n']._replace(default_value=7)
    if ending != 'tfrecord':
        del spec.features['absent_value']  # a column has to be there
    source = open_source(f'{folder}/seven/part-*.{ending}', spec)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        data = batches.batches_of(source, 'eval', {'batch_size': 8}, None, 'none')
        features, labels = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
        found = session.run([features['n'], labels])
    assert [part.tolist() for part in found] == [[-1, 1, 2, 3, 4, -1, 6, 7], list(range(8))]


def test_a_parquet_file_may_say_itself_what_it_holds(folder):
    spec = written.spec('parquet')
    spec = type(spec)(None, label='id')
    features = open_source(f'{folder}/one/part-0.parquet', spec).features
    assert features['s'] == tf.io.FixedLenFeature([], tf.string)
    assert features['x'] == tf.io.VarLenFeature(tf.float32)


def test_csv_without_a_header_and_with_another_delimiter(tmp_path):
    (tmp_path / 'part-0.csv').write_bytes(b'\xef\xbb\xbf7|a|1.5\r\n\r\n8|"b|c"|2\r\n9||\r\n\n')
    fixed = tf.io.FixedLenFeature
    features = {'id': fixed([], tf.int64), 's': fixed([], tf.string, ''), 'x': fixed([], tf.float32, 0.5)}
    spec = type(written.spec('csv'))(features, columns=('id', 's', 'x'), delimiter='|')
    found = open_source(f'{tmp_path}/*.csv', spec).batch(np.arange(3))
    assert found['id'].numpy().tolist() == [7, 8, 9]
    assert found['s'].numpy().tolist() == [b'a', b'b|c', b'']
    assert found['x'].numpy().tolist() == [1.5, 2.0, 0.5]


class TestInAStore:
    """Whole copies, and blocks; of a store in memory."""

    @pytest.fixture
    def cache(self, folder, tmp_path, monkeypatch):
        memory_store.install(monkeypatch, memory_store.files_below(folder, 'data'))
        return Cache(str(tmp_path), 10**7)

    @IN_EACH_WAY
    def test_the_order_is_that_of_local_files(self, folder, cache, monkeypatch, ending, shuffle):
        local = ids(f'{folder}/seven/part-*.{ending}', ending, shuffle=shuffle)
        remote = f'{memory_store.BUCKET}/data/seven/part-*.{ending}'
        assert ids(remote, ending, shuffle=shuffle, cache=cache) == local
        if ending != 'array_record':
            monkeypatch.setattr(cache, 'has_room_for', lambda paths: False)
            assert ids(remote, ending, shuffle=shuffle, cache=cache) == local
            assert ids(remote, ending, 3, shuffle=shuffle, cache=cache) == local

    def test_what_does_not_fit_is_read_by_the_block_or_refused(self, folder, cache, monkeypatch):
        monkeypatch.setattr(cache, 'has_room_for', lambda paths: False)
        source = self.source(cache, 'tfrecord')
        assert batches.shuffle_of(source, 'auto', in_memory_mb=0) == 'blocks'
        with pytest.raises(UsageError, match='--shuffle=records: .*--data_cache_mib'):
            batches.shuffle_of(source, 'records', in_memory_mb=0)
        with pytest.raises(DatasetError, match='part-0.array_record and others: ArrayRecord .* raise --data_cache_mib'):
            self.source(cache, 'array_record')

    def test_the_contents_are_those_of_local_files(self, folder, cache):
        local = open_source(f'{folder}/seven/part-*.csv', written.spec('csv'))
        assert dataset._contents(self.source(cache, 'csv')) == dataset._contents(local)

    @pytest.mark.parametrize('fits', [True, False])
    def test_a_damaged_object_is_named_by_its_url(self, folder, cache, monkeypatch, fits):
        path = folder / 'seven' / 'part-2.tfrecord'
        data = bytearray(path.read_bytes())
        data[20] ^= 1
        memory_store.install(monkeypatch, {'data/part-2.tfrecord': bytes(data)})
        monkeypatch.setattr(cache, 'has_room_for', lambda paths: fits)
        source = open_source(f'{memory_store.BUCKET}/data/part-*', written.spec('tfrecord'), cache=cache)
        with pytest.raises(BadExample, match='^s3://bucket/data/part-2.tfrecord, record 0 at byte 0: its checksum'):
            source.batch(np.arange(3))

    @pytest.mark.parametrize('ending', ['csv', 'parquet'])
    def test_a_store_that_stays_away_is_said_to_be(self, folder, cache, monkeypatch, ending):
        monkeypatch.setattr(cache, 'has_room_for', lambda paths: False)
        source = self.source(cache, ending)
        memory_store.install(monkeypatch, {}).away = True
        monkeypatch.setattr(patience, 'AWAY_SECS', 0)
        cache.folder.path += '-other'
        with pytest.raises(DatasetUnavailable, match='no answer; it was asked for 0 s'):
            source.batch(np.arange(3))
        assert isinstance(source.failure(), DatasetUnavailable)

    def source(self, cache, ending):
        files = f'{memory_store.BUCKET}/data/seven/part-*.{ending}'
        return open_source(files, written.spec(ending), cache=cache)


class TestShuffle:
    def source(self, folder, ending):
        return open_source(f'{folder}/seven/part-*.{ending}', written.spec(ending))

    @pytest.mark.parametrize('ending', written.FORMATS)
    def test_auto_is_records_where_that_is_possible(self, folder, ending):
        source = self.source(folder, ending)
        enters_anywhere = ending in ('tfrecord', 'csv', 'array_record')
        assert batches.shuffle_of(source, 'auto', in_memory_mb=1024) == 'records'
        assert batches.shuffle_of(source, 'auto', in_memory_mb=0) == ('records' if enters_anywhere else 'blocks')

    def test_records_is_refused_where_it_is_not_possible(self, folder):
        with pytest.raises(UsageError, match='--shuffle=records: .*--shuffle=blocks'):
            batches.shuffle_of(self.source(folder, 'parquet'), 'records', in_memory_mb=0)

    def test_a_typing_mistake(self, folder):
        with pytest.raises(UsageError, match='--shuffle=recrods: use one of'):
            batches.shuffle_of(self.source(folder, 'csv'), 'recrods', 1024)
