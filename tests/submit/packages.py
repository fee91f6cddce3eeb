"""Debian packages for tests of real engines."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile

INSTALL_SECS = 300
_LOCK = pathlib.Path(tempfile.gettempdir(), 'estimator_trainer-tests-apt.lock')


def problem(commands, packages) -> str | None:
    """Why `commands` cannot be had here; None: they are there, installed from `packages` if need be."""

    def missing():
        return [command for command in commands if shutil.which(command) is None]

    wanted = ' '.join(packages)
    if not missing():
        return None
    if os.geteuid() != 0 or shutil.which('apt-get') is None:
        return f'{", ".join(missing())}: not here, and only root can install it (apt-get install {wanted})'
    if pathlib.Path('/run/systemd/system').exists():
        return f'{", ".join(missing())}: not here, and apt-get would start its services (apt-get install {wanted})'
    said = ''
    with open(_LOCK, 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # apt-get does not wait for another; whoever has this is bounded
        for command in (['update'], ['install', '-y', '--no-install-recommends', *packages]):
            try:
                done = subprocess.run(
                    ['apt-get', '-q', *command],
                    env={**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=INSTALL_SECS,
                )
            except subprocess.TimeoutExpired:
                return f'{", ".join(missing())}: apt-get {command[0]} did not end in {INSTALL_SECS} s'
            said = done.stdout
    if missing():
        last = (said.strip().splitlines() or ['nothing'])[-1]
        return f'{", ".join(missing())}: apt-get install {wanted} said: {last}'
    return None
