"""Whose failure is an error of TensorFlow: the job's own, or another task's? Pure; imports no TensorFlow."""

import re

# Python code in the text of an error: of a function that an operation runs, or of one that AutoGraph has traced.
_PYTHON = re.compile(r'Traceback \(most recent call last\):|\Ain user code:')

# Another task has answered, or failed to.
_REMOTE = re.compile(
    r'(?:GRPC error information from remote target|all-reduce in shared memory lost) '
    r'/job:(\w+)/(?:replica:\d+/)?task:(\d+)'
)

# Errors that operations of the job don't have by themselves, and those that tell by their text.
_KINDS = frozenset(('UnavailableError', 'AbortedError', 'DeadlineExceededError', 'CancelledError'))
_KINDS_BY_TEXT = frozenset(('InternalError', 'UnknownError', 'FailedPreconditionError'))

_TEXTS = re.compile(
    '|'.join(
        (
            # collectives
            'Collective ops is aborted',
            'node [^}]*Collective',
            'RecvBufResponse',
            # the service that tells tasks of each other, and its barriers
            'coordination (service|agent|leader)(?!( agent)? is not enabled)',  # that is this task's own state
            'heartbeat',
            'Barrier (failed|timed out|is already)',
            # a task that is not the one that it was
            'incarnation',
            '(session|graph) handle is not found',
            'Session .* is not found',
            'just restarted',
            'probably restarted',
            'was restarted',
            'different cluster',
            # gRPC and the network
            'GRPC error information',
            'remote target',
            'RecvAsync is cancelled',
            'RecvFromRemoteAsync',
            'WorkerSession',
            'Socket closed',
            'Connection (reset|refused|timed out|aborted)',
            'Broken pipe',
            'failed to connect',
            'GOAWAY',
            'RST_STREAM',
            'Stream removed',
            'Endpoint (closing|read failed)',
            'keepalive',
            'Deadline Exceeded',
            'Name resolution',
            'DNS resolution',
            'No route to host',
            'Network is unreachable',
        )
    ),
    re.IGNORECASE,
)
_FRAME = re.compile(r'^ *File ".*$', re.MULTILINE)  # where a node was made: paths may hold any word


def is_of_a_peer(kind: str, text: str, by_tensorflow: bool, task: str) -> bool:
    """Whether an error tells of a connection or of a collective, so that another task is to blame.

    Args:
        kind: the name of the exception's class, one of tf.errors.
        text: its whole message.
        by_tensorflow: TensorFlow has raised it, and not Python code of the job.
        task: the one that has the error, such as 'worker:0'. A parameter server may report back what failed in it.
    """
    if not by_tensorflow:
        return False
    if peer_of(text, task):  # maybe with the traceback of a function that failed there
        return True
    if is_of_python(text):
        return False
    return kind in _KINDS or (kind in _KINDS_BY_TEXT and bool(_TEXTS.search(_FRAME.sub('', text))))


def is_of_python(text: str) -> bool:
    """Whether Python code of the job has failed, and TensorFlow has reported it."""
    return bool(_PYTHON.search(text))


def peer_of(text: str, task: str) -> str | None:
    """The first task other than `task` that an error names as one that could not be reached, such as 'worker:1'."""
    named = (f'{match[1]}:{match[2]}' for match in _REMOTE.finditer(text))
    return next((name for name in named if name != task), None)
