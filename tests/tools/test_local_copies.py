"""Arguments of tools that name what is in a store, here one in memory."""

import glob
import os
import signal
import tempfile
from multiprocessing.pool import ThreadPool

import pytest

pytest.importorskip('obstore')

from estimator_trainer.errors import DatasetError, UsageError  # noqa: E402
from estimator_trainer.run_dir import files_of_others  # noqa: E402
from estimator_trainer.storage import connection, needs  # noqa: E402
from estimator_trainer.tools.local_copies import LocalCopies  # noqa: E402
from tests.storage.memory_store import URL, MemoryStore  # noqa: E402


@pytest.fixture
def remote(monkeypatch, tmp_path):
    """The one folder of the store that there is."""
    made = MemoryStore()
    monkeypatch.setattr(connection, 'open_for_reading', lambda url, environ, flag: made)
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    return made


def put(remote, *found):
    for name in found:
        remote.put(name, name)


def test_what_is_no_url_is_left_as_it_is_but_for_the_home_folder(monkeypatch):
    monkeypatch.setenv('HOME', '/home/of')
    with LocalCopies() as here:
        assert here.run('~/runs/a', '--model_dir', needs.of_report) == '/home/of/runs/a'
        assert (here.file('~/a.html', '--out'), here.folder('~/b', '--to')) == ('/home/of/a.html', '/home/of/b')
        assert (here.file('a.html', '--out'), here.folder('', '--to')) == ('a.html', '')
        assert here.files('a, b*', '--files') == ['a', 'b*']
        here.send()
        assert here.shown({'a': ['/tmp', 1]}) == {'a': ['/tmp', 1]}
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize('error', [UsageError, KeyboardInterrupt, OSError])
def test_errors_name_the_url_and_the_folder_vanishes(remote, tmp_path, error):
    put(remote, 'config.json')
    with pytest.raises(error) as caught, LocalCopies() as here:
        folder = here.run(URL, 'MODEL_DIR', needs.of_status)
        assert os.listdir(folder) == ['config.json'] and folder.startswith(str(tmp_path))
        assert os.path.basename(folder) == 'run'
        path = os.path.join(folder, 'x')
        raise error(2, 'not there', path) if error is OSError else error(f'--a={path}: is bad')
    found = caught.value.filename if error is OSError else str(caught.value)
    assert found == f'{URL}/x' if error is OSError else found == f'--a={URL}/x: is bad'
    assert not os.listdir(tmp_path)


def test_in_another_thread_no_signal_is_caught(remote):
    put(remote, 'config.json')

    def read():
        with LocalCopies() as here:
            return os.listdir(here.run(URL, 'MODEL_DIR', needs.of_status)), signal.getsignal(signal.SIGTERM)

    with ThreadPool(1) as pool:
        assert pool.apply(read) == (['config.json'], signal.SIG_DFL)


def test_a_signal_ends_it_as_an_error_does(remote, tmp_path):
    put(remote, 'config.json')
    with pytest.raises(SystemExit), LocalCopies() as here:
        here.run(URL, 'MODEL_DIR', needs.of_status)
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    assert not os.listdir(tmp_path)


def test_a_run_that_is_not_there_is_one_error(remote):
    with pytest.raises(UsageError, match='MODEL_DIR=s3://bucket/run: nothing is there'), LocalCopies() as here:
        here.run(URL, 'MODEL_DIR', needs.of_status)


def test_results_are_sent_in_an_order_in_which_nothing_is_half_visible(remote):
    with LocalCopies() as here:
        folder = here.folder(URL, '--to')
        assert here.is_empty(folder, 'migrate.json')
        names = ['checkpoint', 'model.ckpt-3.index', 'model.ckpt-3.data-00000-of-00001', 'saved_model/saved_model.pb']
        for name in [*names, 'saved_model/variables/variables.index', 'config.json', '.trainer.lock']:
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), 'w') as file:
                file.write(name)
        here.send()
        assert not here.is_empty(folder, 'migrate.json')
        assert here.shown([folder]) == [URL]
    assert remote.called('put_file') == [
        *('config.json', 'model.ckpt-3.data-00000-of-00001', 'saved_model/variables/variables.index'),
        *('model.ckpt-3.index', 'saved_model/saved_model.pb', 'checkpoint'),
    ]


def test_a_file_of_others_in_the_store_is_seen_and_stays(remote):
    put(remote, 'report.html')
    with pytest.raises(UsageError, match=f'{URL}/report.html is there already'), LocalCopies() as here:
        files_of_others.refuse_page(here.file(f'{URL}/report.html', '--out'))
    with pytest.raises(UsageError, match='parity.json is there already'), LocalCopies() as here:
        put(remote, 'parity.json')
        folder = here.folder(URL, '--out', replaced=['parity.html', 'parity.json'])
        assert os.listdir(folder) == ['parity.json']
        files_of_others.refuse_json(os.path.join(folder, 'parity.json'), 'pairs', '--out')
    assert remote.called('put_file') == []


def test_a_file_is_sent_by_itself(remote):
    with LocalCopies() as here:
        path = here.file(f'{URL}/report.html', '--out')
        with open(path, 'w') as file:
            file.write('page')
        with open(f'{path}.tmp', 'w') as file:
            file.write('')
        here.send()
    assert remote.called('put_file') == ['report.html'] and remote.read('report.html')[0] == b'page'
    with pytest.raises(UsageError, match='name a file'), LocalCopies() as here:
        here.file(f'{URL}/', '--out')
    with pytest.raises(UsageError, match='must lie in a folder, such as s3://bucket/out/a.html'), LocalCopies() as here:
        here.file('s3://bucket/a.html', '--out')
    with pytest.raises(UsageError, match='leave out what follows'), LocalCopies() as here:
        here.file(f'{URL}/report.html?x', '--out')


def test_escaped_characters_are_themselves(remote):
    with LocalCopies() as here:
        assert os.path.basename(here.file('S3://bucket/run/a%20page.html', '--out')) == 'a page.html'
    put(remote, 'a b.csv')
    with LocalCopies() as here:
        assert here.shown(here.files('S3://bucket/run/a%20*.csv', '--files')) == [f'{URL}/a b.csv']


def test_files_by_globs(remote):
    put(remote, 'part-0.csv', 'part-1.csv', 'part-1.txt', 'more/part-2.csv', 'part-[1].csv')

    def found(pattern):
        with LocalCopies() as here:
            return here.shown(here.files(pattern, '--files'))

    assert found(f'local.csv,{URL}/part-*.csv') == [
        'local.csv',
        *(f'{URL}/{name}' for name in ('part-0.csv', 'part-1.csv', 'part-[1].csv')),
    ]
    assert found(f'{URL}/part-[1].csv') == [f'{URL}/part-[1].csv']
    assert found(f'{URL}/*/part-?.csv') == [f'{URL}/more/part-2.csv']
    with pytest.raises(DatasetError, match='no object matches'):
        found(f'{URL}/no-*.csv')
    put(remote, 'y.parquet', 'x.parquet/part-0.parquet')
    with pytest.raises(DatasetError, match=f'^{URL}/x.parquet is a folder; name its files, such as {URL}/x.parquet/'):
        found(f'{URL}/*.parquet')
    assert found(f'{URL}/**/*.parquet') == [f'{URL}/x.parquet/part-0.parquet', f'{URL}/y.parquet']
    for pattern in ('s3://*/a', 's3://bucket/*.csv'):
        with pytest.raises(UsageError, match='a bucket and a folder'):
            found(pattern)


def test_nothing_is_left_behind(remote):
    assert not glob.glob(f'{tempfile.gettempdir()}/estimator-trainer-*')
