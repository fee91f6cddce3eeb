"""The exit codes of every program of this package: an API, listed in the README.

Below 128 a failure is permanent: running the same command again fails the same way. From 128 on it
is worth another try. The border is Kubeflow's (`restartPolicy: ExitCode`), so that an engine which
knows only the number does the right thing.
"""

OK = 0
FAILED = 1
USAGE = 64  # EX_USAGE of sysexits.h
NO_DATA = 66  # EX_NOINPUT
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
TERMINATED = 143  # 128 + SIGTERM

MEANINGS = {
    OK: 'done',
    FAILED: 'failed: an exception in the job, in TensorFlow or in the trainer; its traceback is above',
    USAGE: 'usage: a flag, a job, TF_CONFIG or a model_dir that contradicts the flags; nothing was started',
    NO_DATA: 'the data set is not there and cannot be had',
    INTERRUPTED: 'interrupted (Ctrl-C); the same command resumes',
    TERMINATED: 'terminated (SIGTERM); the same command resumes',
}


def describe(code: int) -> str:
    """Says what an exit code means, in one phrase, for any integer."""
    if code in MEANINGS:
        return MEANINGS[code]
    if code > 128:
        return f'killed by signal {code - 128}'
    return 'unknown exit code'
