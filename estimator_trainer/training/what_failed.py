"""What an exception says in one line: its class, the line of its text that tells something, the place in the job.

And whose failure an error of TensorFlow is: the job's own, or another task's. Pure; imports no TensorFlow.
"""

import os
import re

from estimator_trainer import own_code
from estimator_trainer.compat import cures
from estimator_trainer.error_lines import TRACED, cause_in_traced_code, short, telling_line
from estimator_trainer.this_process import gpus

_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+)', re.MULTILINE)
# Texts of TensorFlow that say what an operation could not do, and what they mean for the job. Each was seen on
# TensorFlow 2.15 and 2.21.
_OF_ANOTHER_MODEL = (
    (
        re.compile(r'Key (\S+) not found in checkpoint'),
        'the variable {0} is not in the checkpoint that is restored: the model has changed since the checkpoint was '
        'saved (an optimizer has variables too). Use another --model_dir, or let the variable have its old name; to '
        'begin with those variables that are there, see docs/recipes.md, warm start',
    ),
    (
        re.compile(r'Assign requires shapes of both tensors to match\. lhs shape= ?(\[.*?\]) rhs shape= ?(\[.*?\])'),
        'a variable has the shape {0} in the model, and {1} in the checkpoint that is restored: the model has changed '
        'since the checkpoint was saved. Use another --model_dir, or give the model its old sizes',
    ),
)
_MEANINGS = (
    *_OF_ANOTHER_MODEL,
    (
        re.compile(r'Loss must be scalar, given: Tensor\(.*?shape=(\(.*?\)), '),
        'the loss of the model_fn has the shape {0}, and a loss is one number: give tf.reduce_mean(loss)',
    ),
    (
        re.compile(r'Input to reshape is a tensor with (\d+) values, but the requested shape has 1\b'),
        'a tensor of {0} values was to be one number. If it is the loss of the model_fn, give tf.reduce_mean(loss)',
    ),
    (
        re.compile(
            r'\[Labels must be <= n_classes - 1\].*?\[x \(.*?\) = \] \[(.*?)(?:\.\.\.)?\] \[y \(.*?\) = \] \[(\d+)\]'
        ),
        'a label is greater than n_classes - 1, which is {1}: the labels begin with {0}. Classes count from 0; give '
        'the Estimator more n_classes, or mend the labels',
    ),
    (
        re.compile(r'\[Labels must be >= 0\.? *\].*?\[x \(.*?\) = \] \[(.*?)(?:\.\.\.)?\]$', re.MULTILINE),
        'a label is negative, which a label that is not in the label_vocabulary becomes: the numbers of the labels '
        'begin with {0}. Add the missing label to label_vocabulary, or mend the labels',
    ),
    (
        re.compile(r'must be provided with type `tpu_config\.RunConfig`|params argument, required by TPUEstimator'),
        'a TPUEstimator is trained on a TPU only: let make_estimator give a tf.estimator.Estimator with the same '
        'model_fn, and the model_fn a tf.estimator.EstimatorSpec',
    ),
    (
        re.compile(r'not a tf\.keras\.optimizers\.Optimizer instance\. Given: <(?:[\w.]*\.)?(\w+) object'),
        'this canned Estimator of TensorFlow 2 takes no {0} of tf.compat.v1.train: give it the name of an optimizer, '
        'such as "Adam", or one of tf.keras.optimizers.legacy; or use the Estimator of the same name in '
        'tf.compat.v1.estimator',
    ),
)

_NOT_COMPILED = re.compile(
    r'Detected unsupported operations when trying to compile graph .*? on XLA_\w+: (\w+)'
    r'|with op (\w+) must be a compile-time constant',
    re.DOTALL,
)

# Python code in the text of an error: of a function that an operation runs, or of one that AutoGraph has traced.
_PYTHON = re.compile(r'Traceback \(most recent call last\):|\Ain user code:')

# Another task has answered, or failed to.
_REMOTE = re.compile(
    r'(?:GRPC error information from remote target|all-reduce in shared memory lost) '
    r'/job:(\w+)/(?:replica:\d+/)?task:(\d+)'
)

# Errors that operations of the job don't have by themselves, and those that tell by their text.
_PEER_KINDS = frozenset(('UnavailableError', 'AbortedError', 'DeadlineExceededError', 'CancelledError'))
_PEER_KINDS_BY_TEXT = frozenset(('InternalError', 'UnknownError', 'FailedPreconditionError'))

_PEER_TEXTS = re.compile(
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
_WHERE_MADE = re.compile(r'^ *File ".*$', re.MULTILINE)  # where a node was made: paths may hold any word


def meaning_of(text: str) -> str:
    """What a text means, and what helps; '' if it is none of those above."""
    for pattern, meaning in _MEANINGS:
        match = pattern.search(text)
        if match:
            return meaning.format(*match.groups())
    return gpus.meaning_of(text)


def refusal(error: BaseException) -> str:
    """A sentence for the user who has changed the model of a run that goes on; '' for other errors."""
    text = text_of(error)
    return meaning_of(text) if any(pattern.search(text) for pattern, _ in _OF_ANOTHER_MODEL) else ''


def not_compiled(text: str) -> str:
    """What XLA cannot compile, such as 'the operation Where'; '' if the text does not say so."""
    match = _NOT_COMPILED.search(text)
    if match is None:
        return ''
    kind = match[1] or match[2]
    return 'a batch with text' if kind == '_Arg' else f'the operation {kind}'


def described(error: BaseException) -> str:
    """Such as "KeyError: 'no column named age' (raises.py, line 6)", and what to do about a name of TensorFlow 1."""
    text = text_of(error)
    cause = cause_in_traced_code(text)
    said = short(cause) if cause else f'{type(error).__name__}: {short(first_line(error))}'
    what = meaning_of(text) or said
    file, line = _place(error, text)
    said = f'{what} ({os.path.basename(file)}, line {line})' if file else what
    cure = cures.advice_for_job(error)
    return f'{said}; {cure}' if cure else said


def in_traced_code(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """The exception of this class for which AutoGraph has raised `error`; it does so around a model_fn of replicas."""
    if not text_of(error).startswith(TRACED):
        return None
    before = error.__context__
    while before is not None and not isinstance(before, kind):
        before = before.__context__
    return before


def first_line(error: BaseException) -> str:
    """The first line of its text that tells something."""
    return telling_line(text_of(error)) or type(error).__name__


def text_of(error: BaseException) -> str:
    return str(getattr(error, 'message', None) or error)


def _place(error: BaseException, text: str) -> tuple[str, int]:
    """The innermost line of the job's own code: in the text, else in the traceback. ('', 0): there is none."""
    named = [(file, int(line)) for file, line in _FRAME.findall(text)]
    return own_code.innermost(named) or own_code.innermost(own_code.raised_at(error)) or ('', 0)


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
    return kind in _PEER_KINDS or (kind in _PEER_KINDS_BY_TEXT and bool(_PEER_TEXTS.search(_WHERE_MADE.sub('', text))))


def is_of_python(text: str) -> bool:
    """Whether Python code of the job has failed, and TensorFlow has reported it."""
    return bool(_PYTHON.search(text))


def peer_of(text: str, task: str) -> str | None:
    """The first task other than `task` that an error names as one that could not be reached, such as 'worker:1'."""
    named = (f'{match[1]}:{match[2]}' for match in _REMOTE.finditer(text))
    return next((name for name in named if name != task), None)
