"""One measured thing: a fresh process in a folder of its own, with a bound, that prints one line of JSON."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
_POLL_SECS = 0.05
_GRACE_SECS = 40  # a supervisor gives its tasks 30
_LINES_OF_FAILURE = 8
_NOT_OURS = ('TF_CONFIG', 'TF_USE_LEGACY_KERAS', 'ESTIMATOR_TRAINER_FIXES')  # each entry says it itself


class Failed(Exception):
    """It could not be measured. The text has the last lines of its output."""


class Skipped(Exception):
    """It cannot be measured here. The text says why."""


def run(command, timeout_secs, read=None, env=None, watch=None) -> dict:
    """Starts the command, waits for it, and returns what it measured.

    Args:
        command: argv. Its current folder is a temporary one, which is removed afterwards.
        timeout_secs: after which it is killed, and all that it started.
        read: (folder) -> dict, for a command that prints no JSON.
        env: further environment variables.
        watch: (pid, folder, found), called again and again while it runs; adds to the dict `found`.

    Returns:
        what was measured, and `seconds`, from the start of the command to its end.

    Raises:
        Failed: it ended with another code than 0, ran out of time, or measured nothing.
        Skipped: it said so itself, with {"skipped": why}.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
    path = os.pathsep.join(filter(None, [str(ROOT), kept.get('PYTHONPATH')]))
    kept |= {'PYTHONPATH': path, 'TF_CPP_MIN_LOG_LEVEL': '2', **(env or {})}
    with tempfile.TemporaryDirectory(prefix='benchmark-', ignore_cleanup_errors=True) as folder:
        out, found = pathlib.Path(folder, '.out'), {}
        began = time.monotonic()
        with open(out, 'wb') as file:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=kept,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            while process.poll() is None:
                if time.monotonic() - began > timeout_secs:
                    raise Failed(f'not done after {timeout_secs:.0f} s\n{_end_of(out)}')
                if watch:
                    watch(process.pid, folder, found)
                time.sleep(_POLL_SECS)
            found['seconds'] = time.monotonic() - began
        finally:
            _end(process)
        if process.returncode:
            raise Failed(f'ended with code {process.returncode}\n{_end_of(out)}')
        try:
            found |= read(folder) if read else _last_json(out.read_text(errors='replace'))
        except (OSError, ValueError, KeyError) as error:
            raise Failed(f'{error}\n{_end_of(out)}') from error
    if 'skipped' in found:
        raise Skipped(found['skipped'])
    return found


def _end(process) -> None:
    """Ends the process and its group.

    A supervisor's tasks have groups of their own: it ends them when it is asked to end.
    """
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECS)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process, number) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _last_json(text) -> dict:
    lines = [line for line in text.splitlines() if line.startswith('{') and line.endswith('}')]
    if not lines:
        raise ValueError('it printed no line of JSON')
    return json.loads(lines[-1])


def _end_of(out) -> str:
    return '\n'.join(out.read_text(errors='replace').splitlines()[-_LINES_OF_FAILURE:])
