"""The exit codes of every program of this package: an API, listed in docs/reference.md.

If a code is below 128, the failure is permanent: the same command would fail the same way. If it is 128 or more, the
same command may succeed. Our own supervisor also restarts after code 1, because the cause of an exception may be
temporary. Kubeflow's `restartPolicy: ExitCode` makes the same distinction, so an engine that knows only the number
decides correctly. Our own retryable codes begin at 193: 128 + N is taken by signals, of which Linux has 64.
"""

import signal

OK = 0
FAILED = 1
USAGE = 64  # EX_USAGE of sysexits.h
DAMAGED = 65  # EX_DATAERR
NO_DATA = 66  # EX_NOINPUT
NOT_FINITE = 70  # EX_SOFTWARE
OUT_OF_MEMORY = 71  # EX_OSERR
CANNOT_WRITE = 74  # EX_IOERR
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
TERMINATED = 143  # 128 + SIGTERM
LOST_PEER = 193
NO_PEER = 194
STALLED = 195
NOT_SAVED = 196
RESTARTS_SPENT = 197
PORT_TAKEN = 198
MODEL_DIR_TAKEN = 199
FILES_AWAY = 200
NOT_SENT = 201
COMPANION_LOST = 202

MEANINGS = {
    OK: 'done',
    FAILED: 'failed: an exception in the job, in TensorFlow or in the trainer; it has printed its traceback',
    USAGE: 'usage error: a flag, the job or TF_CONFIG is wrong, or the model_dir contradicts the flags or is in use; '
    'hardly ever after training has begun',
    DAMAGED: 'no checkpoint of the model_dir can be read, or an example of the data cannot be used; of `inspect`: a '
    'file is damaged',
    NO_DATA: 'the data set or a data file is missing or empty, has changed or cannot be read',
    NOT_FINITE: 'the loss or a weight is NaN or infinite',
    OUT_OF_MEMORY: 'out of memory, as TensorFlow or Python says it (137: the kernel has killed the process)',
    CANNOT_WRITE: 'the model_dir cannot be written or read: disk full, no permission, or too many open files',
    INTERRUPTED: 'interrupted (Ctrl-C); the same command goes on from what is saved, if anything',
    TERMINATED: 'preempted (SIGTERM or SIGHUP); the same command goes on from what is saved, if anything',
    LOST_PEER: 'another task of the cluster was lost',
    NO_PEER: 'another task of the cluster never answered',
    STALLED: 'no step was finished within the time limit',
    NOT_SAVED: 'told to stop, and ended before its last step was saved; the same command goes on from what is '
    'saved, if anything',
    RESTARTS_SPENT: 'failed more often than --max_restarts allows',
    PORT_TAKEN: "this task's port is taken",
    MODEL_DIR_TAKEN: 'a trainer or an evaluator on another machine uses the model_dir; if that machine is lost, its '
    'lock expires after a while',
    FILES_AWAY: 'files cannot be used at the moment: the file system fails (input/output error, stale file handle), a '
    'store or a service does not answer, the process that prepares the data makes no progress, or tasks see different '
    'files',
    NOT_SENT: 'the last checkpoint was saved on this machine, but could not be sent to the store of the model_dir; '
    'the same command on this machine sends it',
    COMPANION_LOST: "the process that secures this task's port (--secure) has ended or could not start",
}

# Their meanings name several things. The message of a task that ends so says which one it was.
OF_SEVERAL = frozenset((USAGE, DAMAGED, NO_DATA, CANNOT_WRITE, FILES_AWAY))

# A task ends with these codes because another task failed.
SYMPTOMS = frozenset((LOST_PEER, NO_PEER))


def was_stopped(code: int | None) -> bool:
    """Whether this is the code of a run or a task that was told to stop. After SIGHUP a supervisor ends with
    128 + SIGHUP; a task ends with the code of SIGTERM."""
    return code in (128 + signal.SIGHUP, INTERRUPTED, TERMINATED)


def retryable(code: int) -> bool:
    """Whether the same command may succeed when it is run again."""
    return code >= 128


def after_message(code: int) -> str:
    """What follows the message of a task that ends with it: '[exit code 70: the loss or a weight is NaN …]'."""
    return f'[exit code {code}]' if code in OF_SEVERAL else f'[exit code {code}: {describe(code)}]'


def describe(code: int) -> str:
    """Says what an exit code means, in one phrase, for any integer."""
    if code in MEANINGS:
        return MEANINGS[code]
    if 128 < code <= 192:
        return f'killed by signal {code - 128}'
    return 'unknown exit code'
