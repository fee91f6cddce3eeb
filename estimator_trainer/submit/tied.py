"""A command that does not outlive who started it: the kernel kills it when that process ends, however it ends.

    python -IS tied.py PARENT COMMAND [ARGUMENT ...]

A program of its own, because a process with threads, such as a worker of Ray, cannot safely run anything
between fork and exec.
"""

import os
import pathlib
import sys

NOT_FOUND = 127  # as a shell says it


def main(parent: str, *argv: str) -> int:
    """Becomes the command; returns only if that is not possible."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))  # -I: nobody else's PYTHONPATH
    from estimator_trainer.this_process import parent_process

    parent_process.tie_to_parent(int(parent))
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        print(f'{argv[0]}: {error.strerror}', file=sys.stderr)
    return NOT_FOUND


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
