"""For all tests. Those that use TensorFlow in their own process are in files test_tf_*.py.

`python -m pytest` plays what is not marked slow, `--all` everything. Files and folders that are named are played whole.
"""

import fcntl
import importlib
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.chaos.case import Undisturbed

for name in list(os.environ):  # what the shell has set up for other runs is not for these
    if name.startswith('ESTIMATOR_TRAINER_') or name in ('TF_CONFIG', 'TF_CPP_MIN_LOG_LEVEL'):
        del os.environ[name]
os.environ['ESTIMATOR_TRAINER_REPORT'] = 'off'  # a page takes a second or two, and most runs here are shorter


def pytest_addoption(parser):
    parser.addoption('--all', action='store_true', help='play the tests that are marked slow as well')
    parser.addoption('--engines', metavar='FOLDER', help='where `python -m tests.submit.engines` has installed them')


def pytest_collection_modifyitems(config, items):
    if config.option.all or config.args_source != pytest.Config.ArgsSource.TESTPATHS:
        return
    slow = [item for item in items if item.get_closest_marker('slow')]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in set(slow)]


def pytest_pycollect_makemodule(module_path):
    if module_path.name.startswith('test_tf_'):
        importlib.import_module('tests.bring_up_tensorflow')


@pytest.fixture(autouse=True)
def no_files_of_other_tests():
    """What a test has found wrong with its files explains no failure of another test."""
    yield
    source = sys.modules.get('estimator_trainer.data.files.source')
    if source:
        source.forget_all()


@pytest.fixture(autouse=True)
def log_as_it_is_before_a_command():
    """A test never finds the log as another test's command has set it up: `caplog` would hear lines twice, or none."""
    log = logging.getLogger('estimator_trainer')
    log.handlers.clear()
    log.setLevel(logging.NOTSET)
    log.propagate = True


_PREPARE = """
import logging, os, sys, time
logging.basicConfig(level=logging.INFO, format='LOG %(message)s')
from estimator_trainer import compat
compat.bring_up()
from estimator_trainer.data import sources
folder, me, peer = sys.argv[1:]
open(os.path.join(folder, me), 'w').close()
deadline = time.monotonic() + 200
while not os.path.exists(os.path.join(folder, peer)):
    assert time.monotonic() < deadline, 'the other process did not start'
    time.sleep(0.01)
print('EXAMPLES', sources.load('mnist_5k', os.path.join(folder, 'data')).num_train)
"""


@pytest.fixture(scope='session')
def of_all_workers(tmp_path_factory):
    """A folder that all processes of this test run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if 'PYTEST_XDIST_WORKER' in os.environ else folder


@pytest.fixture(scope='session')
def prepared_by_two(of_all_workers):
    """(data_dir, [(exit code, output)]) of two processes that prepared mnist_5k at the same time."""
    folder = of_all_workers / 'datasets'
    with open(of_all_workers / 'datasets.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / 'results.json').exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            (folder / 'results.json').write_text(json.dumps(_prepare_by_two(folder)))
    return str(folder / 'data'), json.loads((folder / 'results.json').read_text())


def _prepare_by_two(folder):
    processes = [
        subprocess.Popen(
            [sys.executable, '-c', _PREPARE, str(folder), *names],
            cwd=pathlib.Path(__file__).parents[1],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for names in (('a', 'b'), ('b', 'a'))
    ]
    try:
        outputs = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, output) for process, output in zip(processes, outputs)]


@pytest.fixture(scope='session')
def data_dir(prepared_by_two):
    """Where mnist_5k is prepared."""
    return prepared_by_two[0]


@pytest.fixture(scope='session')
def undisturbed(of_all_workers):
    """Runs of the chaos cases' job in which nothing goes wrong, each made once."""
    return Undisturbed(of_all_workers)


@pytest.fixture(params=['of TensorFlow 2', 'of TensorFlow 1'])
def tensor_shapes(request):
    """Each test twice. In a shape of TensorFlow 1, as programs under --tf1 have it, a size is a Dimension: it cannot be
    hashed, and one that is unknown is not None."""
    import tensorflow as tf

    if request.param == 'of TensorFlow 1':
        tf.compat.v1.disable_v2_tensorshape()
    yield
    tf.compat.v1.enable_v2_tensorshape()


@pytest.fixture(scope='session')
def two():
    """A strategy with two replicas: the only one, for their collective operations get in each other's
    way."""
    import tensorflow as tf

    # The default all-reduce of two logical devices can hang where there are two cores.
    return tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'], tf.distribute.ReductionToOneDevice())
