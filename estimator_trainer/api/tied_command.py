"""python -m estimator_trainer.api.tied_command PID WORD…

Runs `python -m estimator_trainer WORD…`, which ends with the process PID, its parent.

The process ties itself to its parent: a parent with threads, as TensorFlow has them, cannot safely run Python between
fork and exec.
"""

import sys

from estimator_trainer.this_process import parent_process

if __name__ == '__main__':
    parent_process.tie_to_parent(int(sys.argv.pop(1)))

    from estimator_trainer import __main__

    __main__.main()
