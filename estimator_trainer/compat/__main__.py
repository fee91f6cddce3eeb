"""python -m estimator_trainer.compat run|doctor"""

import sys

from tf_config import streams

_USAGE = """usage: python -m estimator_trainer.compat run [--no-fixes] script.py [argument ...]
       python -m estimator_trainer.compat run [--no-fixes] -m package.module [argument ...]
       python -m estimator_trainer.compat doctor

run       runs an unmodified program as python would, with tf.estimator in place, in the Python
          processes it starts as well; --no-fixes leaves upstream's defects as they are
doctor    is `python -m estimator_trainer doctor`: says what works here"""


def main(arguments) -> int:
    command, *rest = arguments or ['--help']
    if command in ('-h', '--help'):
        print(_USAGE)
        return 0
    if command == 'doctor':
        from estimator_trainer.compat import doctor

        return doctor.main(rest)
    if command == 'run':
        fixes = rest[:1] != ['--no-fixes']
        program = rest if fixes else rest[1:]
        # Anything else that begins with a dash would be an option of Python's.
        if program and (not program[0].startswith('-') or program[0] == '-m' and program[1:]):
            from estimator_trainer.compat import run_program

            run_program.run(program, fixes)
    print(_USAGE, file=sys.stderr)
    return 64


if __name__ == '__main__':
    streams.outlive_readers()
    sys.exit(main(sys.argv[1:]))
