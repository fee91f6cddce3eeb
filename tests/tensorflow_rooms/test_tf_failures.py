"""failures.explain: what each exception means; and real servers, asked by watch.peers."""

import errno
import json
import os
import socket
import types

import pytest
import tensorflow as tf

from estimator_trainer import checkpoints, failures
from estimator_trainer.config import parse
from estimator_trainer.data.sources import DatasetError
from estimator_trainer.distribute import plan as planning
from estimator_trainer.hooks.watched_step import NotFiniteError
from estimator_trainer.loops.continuous_evaluation import TrainingLost, TrainingStopped
from estimator_trainer.watch import peers

errors = tf.errors
WORKERS = {'worker': ['host0:1', 'host1:2']}
PS = {'chief': ['host0:1'], 'worker': ['host1:2'], 'ps': ['host2:3'], 'evaluator': ['host3:4']}


def planned(model_dir, task='', cluster=None):
    environ = {}
    if task:
        role, _, index = task.partition(':')
        environ['TF_CONFIG'] = json.dumps(
            {'cluster': cluster or WORKERS, 'task': {'type': role, 'index': int(index)}})
    return planning.make(parse(['trainer', f'--model_dir={model_dir}', '--max_steps=5']), environ)


def lifeline(*missing, checkpoint_step=7):
    gone = [peers.Gone(name, 'host:1', True, 3.) for name in missing]
    return types.SimpleNamespace(missing_peers=lambda: gone, checkpoint_step=checkpoint_step)


def explained(error, folder, task='', cluster=None, line=None):
    try:
        raise error
    except BaseException as raised:
        return failures.explain(raised, planned(folder, task, cluster), line or lifeline())


def op_error(kind, message='it failed'):
    return kind(None, None, message)


ANYWHERE = {
    'data': (DatasetError('--dataset=x: not prepared'), 66, 'not prepared'),
    'checkpoints': (checkpoints.NoGoodCheckpoint('none of m'), 65, 'none of m'),
    'loss': (NotFiniteError('the loss is nan at step 8'), 70,
             'at step 8. The last good checkpoint is of step 7'),
    'NaN hook': (tf.estimator.NanLossDuringTrainingError(), 70, 'NaN loss'),
    'stopped': (TrainingStopped(), 143, 'stopped by a signal'),
    'lost': (TrainingLost(True, 31.), 193, 'no sign of life for 31 s; restart'),
    'never came': (TrainingLost(False, 60.), 194, '60 s'),
    'disk full': (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), 'm/x'), 74, 'No space left'),
    'quota': (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), 'm/x'), 74, 'cannot be written'),
    'read-only': (OSError(errno.EROFS, os.strerror(errno.EROFS), 'm/x'), 74, 'cannot be written'),
    'disk full in TensorFlow': (op_error(errors.ResourceExhaustedError, 'm/x; No space left on device'),
                                74, 'make room'),
    'read-only in TensorFlow': (op_error(errors.FailedPreconditionError, 'm/x; Read-only file system'),
                                74, 'cannot be written'),
    'memory': (MemoryError(), 71, '--batch_size'),
    'memory of a device': (op_error(errors.ResourceExhaustedError, 'OOM when allocating tensor'), 71,
                           'OOM when allocating tensor'),
    'memory in C++': (op_error(errors.UnknownError, 'std::bad_alloc'), 71, 'out of memory'),
    'interrupted': (KeyboardInterrupt(), 130, 'interrupted'),
    'a bug of the job': (ZeroDivisionError('by zero'), 1, 'ZeroDivisionError: by zero'),
    'an exit of the job': (SystemExit(3), 1, 'SystemExit: 3'),
    'an operation': (op_error(errors.InvalidArgumentError, 'bad shape'), 1,
                     'InvalidArgumentError: bad shape'),
    'data that cannot be read': (PermissionError(errno.EACCES, 'Permission denied', '/data/x'), 1, '/data/x'),
    'data that TensorFlow cannot read': (
        op_error(errors.PermissionDeniedError, '/data/x; Permission denied'), 1, '/data/x'),
    'a file that is not there': (FileNotFoundError(errno.ENOENT, 'No such file', 'x'), 1,
                                 'FileNotFoundError'),
}


@pytest.mark.parametrize('error, code, text', ANYWHERE.values(), ids=ANYWHERE)
@pytest.mark.parametrize('task', ['', 'worker:1'])
def test_what_an_exception_means(tmp_path, error, code, text, task):
    end = explained(error, tmp_path, task)
    assert (end.code, text in end.message) == (code, True), end
    assert '\n' not in end.message


@pytest.mark.parametrize('kind', [
    lambda path: PermissionError(errno.EACCES, 'Permission denied', path),
    lambda path: op_error(errors.PermissionDeniedError, f'{path}; Permission denied')])
def test_no_permission_to_write(tmp_path, kind):
    end = explained(kind(str(tmp_path / 'model.ckpt-3.index')), tmp_path)
    assert end.code == 74 and f'{tmp_path} cannot be written' in end.message


CLEAR = {name for name in ANYWHERE if ANYWHERE[name][1] in (65, 66, 70, 74, 143, 193, 194)}


@pytest.mark.parametrize('name', ANYWHERE)
def test_a_traceback_where_it_is_of_use(tmp_path, name, capsys):
    end = explained(ANYWHERE[name][0], tmp_path)
    assert ('Traceback' in capsys.readouterr().err) == (name not in CLEAR)
    if name not in CLEAR and end.code != 130:
        assert end.traceback[0].startswith('Traceback')
        assert type(ANYWHERE[name][0]).__name__ in end.traceback[-1]


OF_A_PEER = [errors.UnavailableError, errors.AbortedError, errors.DeadlineExceededError,
             errors.CancelledError, errors.InternalError, errors.UnknownError, errors.FailedPreconditionError]


@pytest.mark.parametrize('kind', OF_A_PEER)
@pytest.mark.parametrize('task, cluster, code', [
    ('worker:0', WORKERS, 193), ('worker:1', WORKERS, 193), ('worker:0', PS, 193), ('ps:0', PS, 193),
    ('evaluator:0', PS, 1), ('', None, 1), ('worker:0', {'worker': ['host0:1']}, 1)])
def test_an_error_that_may_come_of_a_lost_task(tmp_path, kind, task, cluster, code):
    end = explained(op_error(kind), tmp_path, task, cluster)
    assert (end.code, end.peer) == (code, None) and end.traceback


@pytest.mark.parametrize('kind', [*OF_A_PEER, errors.InvalidArgumentError, errors.DataLossError])
def test_a_task_that_is_missing_is_named(tmp_path, kind):
    end = explained(op_error(kind), tmp_path, 'worker:0', line=lifeline('worker:1'))
    assert (end.code, end.peer) == (193, 'worker:1')
    assert 'lost worker:1 at host:1 (it failed)' in end.message


def test_a_bug_of_the_job_is_not_laid_to_a_missing_task(tmp_path):
    assert explained(ValueError('x'), tmp_path, 'worker:0', line=lifeline('worker:1')).code == 1


@pytest.mark.parametrize('error', [
    op_error(errors.UnknownError, 'Could not start gRPC server'),
    OSError(errno.EADDRINUSE, 'Address already in use')])
@pytest.mark.parametrize('task, code, text', [('worker:1', 198, 'host1:2'), ('', 1, 'Error')])
def test_a_port_that_is_taken(tmp_path, error, task, code, text):
    end = explained(error, tmp_path, task)
    assert end.code == code and text in end.message


def test_the_step_of_the_last_good_checkpoint_is_looked_up(tmp_path):
    end = explained(NotFiniteError('NaN'), tmp_path, line=lifeline(checkpoint_step=None))
    assert 'The last good checkpoint is of step 0' in end.message


def test_the_lost_chief_is_named(tmp_path):
    assert explained(TrainingLost(True, 31.), tmp_path, 'evaluator:0', PS).peer == 'chief:0'


@pytest.mark.parametrize('message, line', [
    ('Graph execution error:\n\nDetected at node add defined at (most recent call last):\n'
     '  File "x.py", line 3, in f\nNode: add\nincompatible shapes\n more', 'incompatible shapes'),
    ('From /job:worker/replica:0/task:1:\nConnection reset by peer', 'Connection reset by peer'),
    ('', 'InvalidArgumentError'),
    ('x' * 300, 'x' * 200 + '...'),
])
def test_the_line_that_tells_something(tmp_path, message, line):
    end = explained(op_error(errors.InvalidArgumentError, message), tmp_path)
    assert end.message == f'InvalidArgumentError: {line}'


def test_what_tensorflow_raises_for_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / 'file').touch()
    with pytest.raises(errors.OpError) as caught:
        tf.io.write_file(str(tmp_path / 'file' / 'x'), 'text')
    assert explained(caught.value, tmp_path).code == 1  # no folder at all: not a full disk
    os.symlink('/dev/full', tmp_path / 'full')
    with pytest.raises(errors.OpError) as caught:
        tf.io.write_file(str(tmp_path / 'full'), 'text')
    assert explained(caught.value, tmp_path).code == 74


def test_what_tensorflow_raises_for_a_port_that_is_taken(tmp_path):
    with socket.create_server(('', 0)) as taken:
        with pytest.raises(errors.OpError) as caught:
            tf.distribute.Server({'worker': [f'localhost:{taken.getsockname()[1]}']}, 'worker', 0)
    assert explained(caught.value, tmp_path, 'worker:1').code == 198


def test_a_server_of_tensorflow_answers():
    server = tf.distribute.Server.create_local_server()
    address = server.target.removeprefix('grpc://')
    assert peers.answers(address) and peers.answers(address)
    assert peers.answering([address, 'localhost:1']) == {address}
