"""The command line of `python -m estimator_trainer.compat run`."""

import sys

from tf_config import streams

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


def main(arguments) -> int:
    command, *rest = arguments or ['--help']
    if command in ('-h', '--help'):
        print(_USAGE)
        return 0
    if command == 'run':
        switches, program = _read(rest)
        # Anything else that begins with a dash would be an option of Python's.
        if program and (not program[0].startswith('-') or program[0] == '-m' and program[1:]):
            from estimator_trainer.compat import run_program

            try:
                run_program.run(program, switches)
            except ValueError as error:  # of --horovod: TF_CONFIG, or what an engine says, names no rank
                print(f'error: {error}', file=sys.stderr)
                return 64
    print(_USAGE, file=sys.stderr)
    return 64


def _read(arguments) -> tuple[dict, list]:
    """({switch: names given with it}, the program and its arguments)."""
    switches, program = {}, list(arguments)
    while program:
        switch, equals, names = program[0].partition('=')
        if program[0] not in _SWITCHES and not (switch in _LISTS and equals):
            break
        switches[switch] = [name for name in names.split(',') if name]
        program.pop(0)
    return switches, program


if __name__ == '__main__':
    streams.outlive_readers()
    sys.exit(main(sys.argv[1:]))
