"""Runs an unmodified program with Estimators in place, as `python` itself would run it.

It is Python itself: this process becomes `python script.py args...`, and the folder `child` on
PYTHONPATH brings Estimators into it and into the Python processes it starts. So sys.argv, sys.path,
`__main__`, tracebacks, signals and exit codes are Python's own.
"""

import os
import subprocess
import sys

from estimator_trainer import compat

_CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'child')


def run(arguments, fixes=True):
    """Becomes the program. Does not return.

    Args:
        arguments: what follows `python` on its command line, from the script or `-m` on.
        fixes: False leaves upstream's defects as they are there; True leaves it to the environment.
    """
    command = [sys.executable, *subprocess._args_from_interpreter_flags(), *arguments]
    environment = child_environment(os.environ, fixes)
    sys.stdout.flush()
    if os.name == 'nt':  # where exec gives the shell back while the program still runs
        sys.exit(subprocess.call(command, env=environment))
    os.execve(sys.executable, command, environment)


def child_environment(environment, fixes=True) -> dict:
    """The environment in which every Python process has Estimators."""
    path = [entry for entry in environment.get('PYTHONPATH', '').split(os.pathsep) if entry and entry != _CHILD]
    return {
        **environment,
        'PYTHONPATH': os.pathsep.join([_CHILD, *path]),
        **({} if fixes else {compat.FIXES_VARIABLE: '0'}),
    }
