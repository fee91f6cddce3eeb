"""Virtual environments of a test's own, for engines whose packages should not be in that of the trainer."""

import os
import subprocess
import sys

INSTALL_SECS = 300


def make(folder, *requirements):
    """(its Python, None), or (None, why there can be none here)."""
    python = folder / 'bin' / 'python'
    for command in (
        [sys.executable, '-m', 'venv', folder],
        [python, '-m', 'pip', 'install', '-q', '--disable-pip-version-check', *requirements],
    ):
        command = [os.fspath(part) for part in command]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=INSTALL_SECS,
            )
        except subprocess.TimeoutExpired:
            return None, f'{" ".join(command)} did not end in {INSTALL_SECS} s'
        if done.returncode:
            last = (done.stdout.strip().splitlines() or ['nothing'])[-1]
            return None, f'{" ".join(command)} said: {last}'
    return python, None
