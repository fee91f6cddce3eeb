"""Runs an unmodified program with Estimators in place, as `python` itself would run it.

This process becomes `python script.py args...`. The folder `child` on PYTHONPATH brings Estimators into it and into the
Python processes that it starts. So sys.argv, sys.path, `__main__`, tracebacks, signals and exit codes are Python's own.
"""

import os
import subprocess
import sys

from estimator_trainer import compat
from estimator_trainer.this_process import allocator

_CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'child')
_SEED = '1'
_OF_TF1 = ('--tf1', '--tf1-packages', '--tf2-packages')


def run(arguments, switches):
    """Becomes the program. Does not return.

    Args:
        arguments: what follows `python` on its command line, from the script or `-m` on.
        switches: {switch of `compat run`: the names that are given with it}.

    Raises:
        ValueError: with --horovod, the environment names no rank.
    """
    if '--horovod' in switches:
        if '--hosts' in switches:
            os.environ['ESTIMATOR_TRAINER_HOSTS'] = ','.join(switches['--hosts'])
        import estimator_trainer.compat.horovod  # noqa: F401 -- takes TF_CONFIG away; the program has what is left
    command = [sys.executable, *subprocess._args_from_interpreter_flags(), *arguments]
    environment = child_environment(os.environ, switches)
    if '--keep-memory' in switches:
        environment = allocator.environment_of_program(environment)
    if not switches.keys().isdisjoint(_OF_TF1):
        print(f'compat: {_rule(switches).described()}', file=sys.stderr, flush=True)
    sys.stdout.flush()
    if os.name == 'nt':  # where exec gives the shell back while the program still runs
        sys.exit(subprocess.call(command, env=environment))
    os.execve(sys.executable, command, environment)


def child_environment(environment, switches) -> dict:
    """The environment in which every process of this Python has Estimators, as the switches say."""
    path = [entry for entry in environment.get('PYTHONPATH', '').split(os.pathsep) if entry and entry != _CHILD]
    this = f'{sys.version_info[0]}:{sys.version_info[1]}:{os.path.realpath(sys.prefix)}'
    changed = {'PYTHONPATH': os.pathsep.join([_CHILD, *path]), compat.PYTHON_VARIABLE: this}
    if '--no-fixes' in switches:
        changed[compat.FIXES_VARIABLE] = '0'
    if '--internals' in switches:
        changed[compat.INTERNALS_VARIABLE] = '1'
    if '--stable-seeds' in switches:
        changed[compat.SEED_VARIABLE] = _SEED
    if not switches.keys().isdisjoint(_OF_TF1):
        changed[compat.TF1_VARIABLE] = str(_rule(switches))
    return {**environment, **changed}


def _rule(switches):
    from estimator_trainer.compat.tf1_names import whose

    return whose.VersionRule(*(frozenset(switches.get(f'--tf{number}-packages', ())) for number in '12'))
