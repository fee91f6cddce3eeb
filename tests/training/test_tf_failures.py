"""failures.explain: what each exception means."""

import errno
import json
import os
import socket

import pytest
import tensorflow as tf

from estimator_trainer.config.trainer_config import parse
from estimator_trainer.errors import BadExample, DatasetError
from estimator_trainer.evaluation.continuous_evaluation import TrainingLost, TrainingStopped
from estimator_trainer.lifecycle import peers
from estimator_trainer.run_dir import checkpoints
from estimator_trainer.training import failures
from estimator_trainer.training import plan as planning
from estimator_trainer.training.loop import NotFiniteError
from tests import fakes

errors = tf.errors
WORKERS = {'worker': ['host0:1', 'host1:2']}
PS = {'chief': ['host0:1'], 'worker': ['host1:2'], 'ps': ['host2:3'], 'evaluator': ['host3:4']}


def planned(model_dir, task='', cluster=None):
    environ = {}
    if task:
        role, _, index = task.partition(':')
        environ['TF_CONFIG'] = json.dumps({'cluster': cluster or WORKERS, 'task': {'type': role, 'index': int(index)}})
    return planning.make(parse(['trainer', f'--model_dir={model_dir}', '--max_steps=5']), environ)


def a_watchdog(*missing, checkpoint_step=7):
    watchdog = fakes.Watchdog([peers.SilentPeer(name, 'host:1', True, 3.0) for name in missing])
    watchdog.resumes_at(checkpoint_step)
    return watchdog


def explained(error, folder, task='', cluster=None, watchdog=None):
    try:
        raise error
    except BaseException as raised:
        return failures.explain(raised, planned(folder, task, cluster), watchdog or a_watchdog())


def op_error(kind, message='it failed'):
    return kind(None, None, message)


TRACEBACK = 'Traceback (most recent call last):\n\n  File "job.py", line 3, in f\n    raise x\n'
ANYWHERE = {
    'data': (DatasetError('--dataset=x: not prepared'), 66, 'not prepared'),
    'an example': (BadExample('a.csv, line 3: short', may_be_left_out=True), 65, 'short; mend the example, or leave'),
    'a file': (BadExample('a.csv: cut short'), 65, 'a.csv: cut short'),
    'checkpoints': (checkpoints.NoGoodCheckpoint('none of m'), 65, 'none of m'),
    'loss': (NotFiniteError('the loss is nan at step 8'), 70, 'at step 8. The last good checkpoint is of step 7'),
    'NaN hook': (tf.estimator.NanLossDuringTrainingError(), 70, 'NaN loss'),
    'stopped': (TrainingStopped(), 143, 'stopped by a signal'),
    'lost': (TrainingLost(True, 31.0), 193, 'no sign of life for 31 s; restart'),
    'never came': (TrainingLost(False, 60.0), 194, '60 s'),
    'disk full': (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 74, 'No space left'),
    'quota': (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), 74, 'cannot be written'),
    'read-only': (OSError(errno.EROFS, os.strerror(errno.EROFS)), 74, 'cannot be written'),
    'disk full in TensorFlow': (op_error(errors.ResourceExhaustedError, 'No space left on device'), 74, 'make room'),
    'read-only in TensorFlow': (
        op_error(errors.FailedPreconditionError, 'Read-only file system'),
        74,
        'cannot be written',
    ),
    "the job's disk is full": (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), '/scratch/x'), 1, 'No space left'),
    "the job's disk is full in TensorFlow": (
        op_error(errors.ResourceExhaustedError, '/scratch/x; No space left on device'),
        1,
        '/scratch/x',
    ),
    "a Python function's disk is full": (
        op_error(errors.UnknownError, f'OSError: [Errno 28] No space left on device\n{TRACEBACK}'),
        1,
        'UnknownError: OSError: [Errno 28] No space left',
    ),
    'a port of the job is taken': (OSError(errno.EADDRINUSE, 'Address already in use'), 1, 'Address already'),
    'memory': (MemoryError(), 71, '--accumulate_steps'),
    'memory of a device': (
        op_error(errors.ResourceExhaustedError, 'OOM when allocating tensor'),
        71,
        'OOM when allocating tensor',
    ),
    'memory in C++': (op_error(errors.UnknownError, 'std::bad_alloc'), 71, 'out of memory'),
    'interrupted': (KeyboardInterrupt(), 130, 'interrupted'),
    'a bug of the job': (ZeroDivisionError('by zero'), 1, 'ZeroDivisionError: by zero'),
    'an exit of the job': (SystemExit(3), 1, 'SystemExit: 3'),
    'an operation': (op_error(errors.InvalidArgumentError, 'bad shape'), 1, 'InvalidArgumentError: bad shape'),
    'data that cannot be read': (PermissionError(errno.EACCES, 'Permission denied', '/data/x'), 1, '/data/x'),
    'data that TensorFlow cannot read': (
        op_error(errors.PermissionDeniedError, '/data/x; Permission denied'),
        1,
        '/data/x',
    ),
    'a file that is not there': (FileNotFoundError(errno.ENOENT, 'No such file', 'x'), 1, 'FileNotFoundError'),
}


@pytest.mark.parametrize('error, code, text', ANYWHERE.values(), ids=ANYWHERE)
@pytest.mark.parametrize('task', ['', 'worker:1'])
def test_what_an_exception_means(tmp_path, error, code, text, task):
    end = explained(error, tmp_path, task)
    assert (end.code, text in end.message) == (code, True), end
    assert '\n' not in end.message


@pytest.mark.parametrize(
    'kind',
    [
        lambda path: PermissionError(errno.EACCES, 'Permission denied', path),
        lambda path: op_error(errors.PermissionDeniedError, f'{path}; Permission denied'),
        lambda path: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path),
        lambda path: op_error(errors.ResourceExhaustedError, f'{path}; No space left on device'),
    ],
)
def test_the_model_dir_cannot_be_written(tmp_path, kind):
    end = explained(kind(str(tmp_path / 'model.ckpt-3.index')), tmp_path)
    assert end.code == 74 and f'{tmp_path} cannot be written' in end.message


CLEAR = {name for name in ANYWHERE if ANYWHERE[name][1] in (65, 66, 70, 74, 143, 193, 194)}


@pytest.mark.parametrize('name', ANYWHERE)
def test_a_traceback_where_it_is_of_use(tmp_path, name, capsys):
    end = explained(ANYWHERE[name][0], tmp_path)
    assert ('Traceback' in capsys.readouterr().err) == (name not in CLEAR)
    if name not in CLEAR and end.code != 130:
        assert end.traceback[0].startswith('Traceback')
        assert type(ANYWHERE[name][0]).__name__ in '\n'.join(end.traceback)


UNAVAILABLE = op_error(errors.UnavailableError, 'Connection reset by peer')
NAMED = op_error(
    errors.UnavailableError,
    'Additional GRPC error information from remote target /job:worker/replica:0/task:1 while calling x',
)


def raised_by_tensorflow(error):
    """A copy of the error, which a file of TensorFlow has raised."""
    path = os.path.join(os.path.dirname(tf.__file__), 'python', 'client', 'session.py')
    with pytest.raises(errors.OpError) as caught:
        exec(compile('raise error', path, 'exec'), {'error': op_error(type(error), error.message)})
    return caught.value


@pytest.mark.parametrize(
    'task, cluster, code',
    [
        ('worker:0', WORKERS, 193),
        ('worker:1', WORKERS, 193),
        ('worker:0', PS, 193),
        ('ps:0', PS, 193),
        ('evaluator:0', PS, 200),
        ('', None, 200),
        ('worker:0', {'worker': ['host0:1']}, 200),
    ],
)
def test_an_error_of_a_connection(tmp_path, task, cluster, code):
    end = explained(raised_by_tensorflow(UNAVAILABLE), tmp_path, task, cluster)
    assert (end.code, end.peer, 'the same command' in end.message) == (code, None, code == 200) and end.traceback


def test_a_task_that_is_missing_is_named(tmp_path):
    end = explained(raised_by_tensorflow(NAMED), tmp_path, 'worker:1', watchdog=a_watchdog('worker:0'))
    assert (end.code, end.peer) == (193, 'worker:0')
    assert 'lost worker:0 at host:1 (Additional GRPC' in end.message


def test_a_task_that_the_error_names(tmp_path):
    end = explained(raised_by_tensorflow(NAMED), tmp_path, 'worker:0')
    assert (end.code, end.peer) == (193, 'worker:1') and 'an operation with worker:1 failed' in end.message


@pytest.mark.parametrize(
    'error', [UNAVAILABLE, op_error(errors.InternalError), op_error(errors.FailedPreconditionError), ValueError('x')]
)
def test_what_the_job_raises_is_its_own_whoever_is_missing(tmp_path, error):
    end = explained(error, tmp_path, 'worker:0', watchdog=a_watchdog('worker:1'))
    assert (end.code, end.peer) == (1, None) and type(error).__name__ in end.message


def fails_in_python(kind):
    def fail(x):
        raise kind('the job fails')

    return fail


@pytest.mark.parametrize('kind', [KeyError, OSError, ConnectionResetError, RuntimeError, ValueError])
@pytest.mark.parametrize('wrap', [tf.numpy_function, tf.py_function])
@pytest.mark.parametrize('eager', [True, False])
def test_a_python_function_of_the_input_pipeline(tmp_path, kind, wrap, eager):
    """What TensorFlow really makes of it."""
    data = tf.data.Dataset.range(3).map(lambda x: wrap(fails_in_python(kind), [x], tf.int64))
    with pytest.raises(errors.OpError) as caught:
        if eager:
            next(iter(data))
        else:
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                session.run(
                    tf.compat.v1.data.make_one_shot_iterator(
                        tf.data.Dataset.range(3).map(lambda x: wrap(fails_in_python(kind), [x], tf.int64))
                    ).get_next()
                )
    end = explained(caught.value, tmp_path, 'worker:0', watchdog=a_watchdog('worker:1'))
    assert (end.code, end.peer) == (1, None)
    assert f'{kind.__name__}: the job fails' in end.message.replace("'", '')
    assert any('the job fails' in line for line in end.traceback)


def test_a_server_that_is_not_there(tmp_path):
    """What TensorFlow really says of a connection."""
    with socket.create_server(('127.0.0.1', 0)) as closed:
        address = f'127.0.0.1:{closed.getsockname()[1]}'
    config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=500)
    with tf.Graph().as_default(), tf.compat.v1.Session(f'grpc://{address}', config=config) as session:
        with pytest.raises(errors.OpError) as caught:
            session.run(tf.constant(1))
    assert explained(caught.value, tmp_path, 'worker:0').code == 193
    assert explained(caught.value, tmp_path, '').code == 1


@pytest.mark.parametrize('task, code, text', [('worker:1', 198, 'host1:2'), ('', 1, 'Error')])
def test_a_port_that_is_taken(tmp_path, task, code, text):
    end = explained(op_error(errors.UnknownError, 'Could not start gRPC server'), tmp_path, task)
    assert end.code == code and text in end.message


def test_the_step_of_the_last_good_checkpoint_is_looked_up(tmp_path):
    end = explained(NotFiniteError('NaN'), tmp_path, watchdog=a_watchdog(checkpoint_step=0))
    assert 'The last good checkpoint is of step 0' in end.message


def test_the_lost_chief_is_named(tmp_path):
    assert explained(TrainingLost(True, 31.0), tmp_path, 'evaluator:0', PS).peer == 'chief:0'


def fails(features, labels, mode):
    raise KeyError('no column named age')


def fails_in_a_pipeline(features, labels, mode):
    next(iter(tf.data.Dataset.range(3).map(lambda x: fails(x, None, None))))


class OfTheJob(Exception):
    def __init__(self, number, why):
        super().__init__(f'{why} {number}')


def fails_otherwise(features, labels, mode):
    raise OfTheJob(3, 'too many:')


@pytest.mark.parametrize(
    'model_fn, said',
    [
        (fails, "KeyError: 'no column named age'"),
        (fails_in_a_pipeline, "KeyError: 'no column named age'"),
        (fails_otherwise, 'OfTheJob: too many: 3'),
    ],
)
@pytest.mark.parametrize('traced', [False, True])
def test_a_model_fn_that_fails_reads_the_same_in_a_cluster(tmp_path, model_fn, said, traced):
    """Where AutoGraph has traced it, as a strategy does, TensorFlow raises another exception with a long text."""
    with pytest.raises(Exception) as caught:
        tf.function(model_fn)(1, 2, 3) if traced else model_fn(1, 2, 3)
    raising = fails_otherwise if model_fn is fails_otherwise else fails
    line = raising.__code__.co_firstlineno + 1
    assert explained(caught.value, tmp_path).message == f'{said} (test_tf_failures.py, line {line})'


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


def test_a_long_text_without_spaces_takes_no_time_worth_naming():
    assert failures._named_file(f'{2_000_000 * "x"}; Disk quota exceeded') == 2_000_000 * 'x'
    assert failures._named_file(2_000_000 * 'x') is None
