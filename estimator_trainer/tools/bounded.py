"""Runs a program to its end, within a time, its output in a file."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from estimator_trainer import error_lines, exit_codes
from estimator_trainer.this_process.child_process import STDOUT, Child

_LAST_LINES = 15
_LAST_BYTES = 2**16


class RunFailed(Exception):
    """A program did not end with 0. The message has its last lines."""


def run(
    name: str,
    command: Sequence[str],
    log_path: str,
    timeout_secs: float,
    environment: Mapping[str, str],
    describe: Callable[[int], str] | None = None,
) -> None:
    """Runs one command, with its output in `log_path`. It does not outlive this process.

    Args:
        name: what the message of a failure begins with.
        describe: says what an exit code of this program means.

    Raises:
        RunFailed: it ended with another code than 0, or not within `timeout_secs`. Its whole process group has been
            killed.
    """
    with open(log_path, 'w') as log, Child(command, env=environment, stdout=log, stderr=STDOUT) as process:
        code = process.wait(timeout_secs)
    if code is None:
        raise RunFailed(f'{name}: not done after {timeout_secs:g} s (--timeout_secs)\n{tail(log_path)}')
    if code != exit_codes.OK:
        ending = f'exit code {code}' if code > 0 else f'killed by signal {-code}'
        meaning = f' ({describe(code)})' if describe and code > 0 else ''
        raise RunFailed(f'{name}: {ending}{meaning}\n{tail(log_path)}')


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """While it is entered, SIGTERM and SIGHUP raise SystemExit, so that `run` kills its program before this one ends.

    A signal that was ignored before, such as by nohup, stays ignored. In another thread than the main one nothing is
    caught: Python does not allow it there.
    """
    is_main = threading.current_thread() is threading.main_thread()
    ours = (signal.SIGTERM, signal.SIGHUP) if is_main else ()
    earlier = {each: signal.getsignal(each) for each in ours}
    caught = [each for each, handler in earlier.items() if handler not in (signal.SIG_IGN, None)]

    def end(signum, frame):
        for each in caught:
            signal.signal(each, signal.SIG_IGN)  # a second one must not interrupt the killing
        raise SystemExit(exit_codes.TERMINATED)

    for each in caught:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in caught:
            signal.signal(each, earlier[each])


def tail(path: str) -> str:
    """The last lines of a log, each marked as a quotation. What the last exception says stands before them, if it is
    not among them: TensorFlow's texts end with a long list of places."""
    with open(path, 'rb') as file:
        file.seek(max(0, os.path.getsize(path) - _LAST_BYTES))
        lines = file.read().decode(errors='replace').splitlines()
    shown, said = lines[-_LAST_LINES:], error_lines.last_words(lines)
    text = said.partition(': ')[2].removesuffix('...')
    if said and not any(text in line for line in shown):
        shown = [said, '...', *shown]
    return '\n'.join(f'  | {line}' for line in shown)
