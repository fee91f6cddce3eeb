"""`python -m estimator_trainer.compat run`: an unmodified program with Estimators in place, as `python` would run it.

This process becomes `python script.py args...`. The folder `child` on PYTHONPATH brings Estimators into it and into the
Python processes that it starts. So sys.argv, sys.path, `__main__`, tracebacks, signals and exit codes are Python's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import estimator_trainer.own_tf_config  # noqa: F401, I001 -- before the next one
import tf_config
from estimator_trainer import compat
from estimator_trainer.this_process import allocator
from tf_config import inherited

if TYPE_CHECKING:
    from estimator_trainer.compat.tf1_names import version_rule

_USAGE = """usage: python -m estimator_trainer.compat run [switch ...] script.py [argument ...]
       python -m estimator_trainer.compat run [switch ...] -m package.module [argument ...]

run       runs an unmodified program as python would, with tf.estimator in place, in the Python
          processes it starts as well
          --no-fixes      leaves upstream's defects as they are
          --keep-memory   takes the trainer's allocator: steps become faster, the process somewhat larger
          --tf1           for programs of TensorFlow 1: tf.logging, tf.app, tf.contrib... for their own modules
          --horovod       `import horovod.tensorflow` works without Horovod; see docs/compat.md
          --hosts=HOST,...   with --horovod under mpirun on several machines: the host of each rank
          --tf1-packages=NAME,...   installed packages that are of TensorFlow 1 as well
          --tf2-packages=NAME,...   packages of the program's own that are of TensorFlow 2
          --internals     private modules of TensorFlow also have the names that moved since 1.15,
                          and NumPy those that it removed; part of --tf1
          --stable-seeds  random numbers that the program leaves unseeded are the same in every run and version
`python -m estimator_trainer doctor [script.py]` says what works here."""
_SWITCHES = ('--no-fixes', '--keep-memory', '--tf1', '--horovod', '--internals', '--stable-seeds')
_LISTS = ('--tf1-packages', '--tf2-packages', '--hosts')
_OF_TF1 = ('--tf1', '--tf1-packages', '--tf2-packages')
_CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'child')
_SEED = '1'


def main(arguments: Sequence[str]) -> int:
    command, *rest = arguments or ['--help']
    if command in ('-h', '--help'):
        print(_USAGE)
        return 0
    if command == 'run':
        switches, program = _read(rest)
        # Anything else that begins with a dash would be an option of Python's.
        if program and (not program[0].startswith('-') or program[0] == '-m' and program[1:]):
            try:
                run(program, switches)
            except ValueError as error:  # of --horovod: TF_CONFIG, or what an engine says, names no rank
                print(f'error: {error}', file=sys.stderr)
                return 64
    print(_USAGE, file=sys.stderr)
    return 64


def _read(arguments: Sequence[str]) -> tuple[dict, list]:
    """({switch: names given with it}, the program and its arguments)."""
    switches, program = {}, list(arguments)
    while program:
        switch, equals, names = program[0].partition('=')
        if program[0] not in _SWITCHES and not (switch in _LISTS and equals):
            break
        switches[switch] = [name for name in names.split(',') if name]
        program.pop(0)
    return switches, program


def run(arguments: Sequence[str], switches: Mapping[str, list[str]]) -> None:
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
    else:
        _say_who_is_alone(os.environ)
    command = [sys.executable, *_options(), *arguments]
    environment = child_environment(os.environ, switches)
    if '--keep-memory' in switches:
        environment = allocator.environment_of_program(environment)
    if not switches.keys().isdisjoint(_OF_TF1):
        print(f'compat: {_rule(switches).described()}', file=sys.stderr, flush=True)
    sys.stdout.flush()
    if os.name == 'nt':  # where exec gives the shell back while the program still runs
        sys.exit(subprocess.call(command, env=environment))
    os.execve(sys.executable, command, environment)


def _say_who_is_alone(environ: Mapping[str, str]) -> None:
    """Says so where srun or mpirun has started this process with others, and nothing tells it of them."""
    others = tf_config.started_with_others(environ)
    if others and not environ.get('TF_CONFIG', '').strip():
        print(
            f'compat: {others}, and TF_CONFIG is not set: unless the program sets it, each of them trains alone, into '
            'the same model_dir. `eval "$(python -m tf_config export)"` sets it in a task (docs/clusters.md)',
            file=sys.stderr,
            flush=True,
        )


def _options() -> list[str]:
    """The options with which this Python was started."""
    options = list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]
    if getattr(sys.stdout, 'write_through', False):  # which -u sets; sys.flags does not have it
        options.append('-u')
    return options


def child_environment(environment: Mapping[str, str], switches: Mapping[str, list[str]]) -> dict:
    """The environment in which every process of this Python has Estimators, as the switches say."""
    given = environment.get('PYTHONPATH')
    path = [entry for entry in given.split(os.pathsep) if entry != _CHILD] if given else []  # '' is the current folder
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


def _rule(switches: Mapping[str, list[str]]) -> version_rule.VersionRule:
    from estimator_trainer.compat.tf1_names import version_rule

    return version_rule.VersionRule(*(frozenset(switches.get(f'--tf{number}-packages', ())) for number in '12'))


if __name__ == '__main__':
    inherited.mend()
    sys.exit(main(sys.argv[1:]))
