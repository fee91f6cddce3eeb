"""what_failed: the texts of real errors, and whose failure they are. Seen on TensorFlow 2.15 and 2.21."""

import pytest

from estimator_trainer.training import what_failed

PYTHON = (
    'Traceback (most recent call last):\n\n  File "/x/tensorflow/python/ops/script_ops.py", line 269, in '
    '__call__\n    ret = func(*args)\n\n  File "/home/me/job.py", line 56, in batches\n    raise {0}\n\n{0}\n\n\n'
    '\t [[{{{{node PyFunc}}}}]]\n\t [[MultiDeviceIteratorGetNextFromShard]]\n\t [[IteratorGetNext]]'
)


def python(error):
    """As an operation reports the exception of a Python function."""
    return f'{error}\n' + PYTHON.format(error)


RESET = (
    'From /job:worker/replica:0/task:1:\nCollective ops is aborted by: recvmsg:Connection reset by peer\n'
    'Additional GRPC error information from remote target /job:worker/replica:0/task:0 while calling '
    '/tensorflow.WorkerService/RecvBuf:\n:UNKNOWN:Error received from peer '
    '{grpc_message:"recvmsg:Connection reset by peer", grpc_status:14}\nThe error could be from a previous '
    'operation. Restart your program to reset.\n\t [[{{node CollectiveReduceV2_4}}]]'
)
OF_A_PEER = [
    ('UnavailableError', RESET),
    ('InternalError', RESET),
    ('UnknownError', RESET),
    # a Python function that failed in another task, which still lived when this one asked it
    (
        'UnknownError',
        'Collective ops is aborted by: ' + python("KeyError: 'x'") + '\nAdditional GRPC error information '
        'from remote target /job:worker/replica:0/task:1 while calling /tensorflow.WorkerService/RecvBuf:',
    ),
    ('UnknownError', python('ConnectionError: all-reduce in shared memory lost /job:worker/task:1')),
    ('UnavailableError', 'failed to connect to all addresses'),
    ('UnavailableError', 'Socket closed'),
    (
        'UnavailableError',
        '/job:worker/replica:0/task:1 heartbeat timeout. This indicates that the remote task has '
        'failed, got preempted, or crashed unexpectedly.',
    ),
    ('UnavailableError', ''),
    ('AbortedError', 'Session 8f2c is not found. Possibly, this master has restarted.'),
    ('AbortedError', 'Graph handle is not found: 3. Possibly, this worker just restarted.'),
    ('AbortedError', '/job:worker/replica:0/task:1 unexpectedly tried to connect while it is already in error.'),
    ('DeadlineExceededError', 'Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register'),
    ('CancelledError', 'RecvAsync is cancelled.\n\t [[{{node add}}]]'),
    ('InternalError', 'Barrier failed because a task is in error. Barrier_id: estimator_trainer/trained'),
    ('InternalError', 'RecvBufResponse returned 0 bytes where to_tensor expected 16'),
    ('InternalError', 'Failed to send RPC to coordination service. Either the leader task was preempted'),
    ('InternalError', '{{function_node __wrapped__x}} bad\n\t [[{{node Adam/CollectiveReduceV2}}]]'),
    (
        'FailedPreconditionError',
        'RecvTensor expects a different device incarnation: 1 vs. 2. Your worker job '
        '("/job:ps/replica:0/task:0") was probably restarted.',
    ),
    (
        'FailedPreconditionError',
        "Device /job:worker/replica:0/task:1/device:CPU:0 current incarnation doesn't match with one in the group.",
    ),
    ('UnknownError', 'Stream removed'),
]
# The same failure of worker:0, as it has seen it, and as a parameter server that waited for it reports it back.
REPORTED_BACK = (
    '\n=====================\nUNKNOWN: From /job:worker/replica:0/task:0:\n'
    + python("KeyError: 'x'")
    + '\nUNKNOWN: From /job:ps/replica:0/task:0:\n'
    + python("KeyError: 'x'")
    + '\nAdditional GRPC error information from remote target /job:worker/replica:0/task:0 while calling '
    '/tensorflow.WorkerService/RecvTensor:\n:UNKNOWN:Error received from peer {grpc_status:2}\n'
    '\t [[transfer/concat_S35]]\n====================='
)
OF_THE_JOB = [
    ('FailedPreconditionError', 'Coordination service agent is not enabled.'),
    ('FailedPreconditionError', 'Coordination service is not enabled.'),
    ('UnknownError', REPORTED_BACK),
    ('UnknownError', 'From /job:worker/replica:0/task:1:\n' + python("KeyError: 'x'")),
    (
        'UnknownError',
        '{{function_node __wrapped__IteratorGetNextAsOptional_device_/job:worker/replica:0/task:1/device:'
        'CPU:0}} ' + python('OSError: [Errno 5] x'),
    ),
    (
        'UnknownError',
        'Graph execution error:\n\nDetected at node PyFunc defined at (most recent call last):\n<stack '
        'traces unavailable>\n' + python('ConnectionResetError: [Errno 104] Connection reset by peer'),
    ),
    ('UnavailableError', python('Unavailable: the data base is away')),
    ('InvalidArgumentError', python('ValueError: x')),
    (
        'UnavailableError',
        'in user code:\n\n    File "/home/me/job.py", line 3, in model_fn  *\n        raise x\n\n'
        '    UnavailableError: x\n',
    ),
    ('InternalError', python('InternalError: x')),
    ('CancelledError', python('CancelledError: x')),
    ('InvalidArgumentError', 'assertion failed: [no heartbeat in the signal] [Condition x > y did not hold]'),
    ('NotFoundError', '/nowhere/data-file; No such file or directory\n\t [[{{node ReadFile}}]]'),
    ('OutOfRangeError', 'End of sequence'),
    ('DataLossError', 'corrupted record at 12'),
    ('InternalError', 'Blas GEMM launch failed : a.shape=(64, 10)'),
    ('UnknownError', 'Failed to rename: data/x; Input/output error'),
    ('FailedPreconditionError', 'Attempting to use uninitialized value w'),
    (
        'InternalError',
        "Detected at node 'add' defined at (most recent call last):\n    File \"/home/me/"
        "heartbeat/coordination service/model.py\", line 3, in f\nNode: 'add'\nit failed\n\t [[{{node add}}]]",
    ),
    ('InternalError', ''),
]


@pytest.mark.parametrize('kind, text', OF_A_PEER)
def test_of_a_peer(kind, text):
    assert what_failed.is_of_a_peer(kind, text, by_tensorflow=True, task='worker:2')


@pytest.mark.parametrize('kind, text', OF_THE_JOB)
def test_of_the_job(kind, text):
    assert not what_failed.is_of_a_peer(kind, text, by_tensorflow=True, task='worker:0')


@pytest.mark.parametrize('kind, text', OF_A_PEER)
def test_what_the_job_raises_itself_is_the_jobs(kind, text):
    assert not what_failed.is_of_a_peer(kind, text, by_tensorflow=False, task='worker:2')


def test_what_a_task_reports_back_is_of_a_peer_for_others():
    assert what_failed.is_of_a_peer('UnknownError', REPORTED_BACK, by_tensorflow=True, task='chief:0')
    assert what_failed.is_of_a_peer('UnavailableError', RESET, by_tensorflow=True, task='worker:0')


@pytest.mark.parametrize(
    'text, peer',
    [
        (RESET, 'worker:0'),
        (REPORTED_BACK, 'worker:0'),
        ('GRPC error information from remote target /job:ps/task:12 while calling', 'ps:12'),
        ('ConnectionError: all-reduce in shared memory lost /job:chief/task:0\n', 'chief:0'),
        ('Socket closed', None),
    ],
)
def test_the_peer_that_an_error_names(text, peer):
    assert what_failed.peer_of(text, 'worker:2') == peer


def test_no_task_names_itself():
    assert what_failed.peer_of(REPORTED_BACK, 'worker:0') is None
    assert what_failed.peer_of(REPORTED_BACK + RESET.replace('task:0', 'task:3'), 'worker:0') == 'worker:3'
