"""A process of a prediction without TensorFlow: row 7 of the result has id 7.

FAULT names what it does after the first part that it writes, once: the file `done_once` beside the folder keeps it
from doing so again.
"""

import json
import os
import pathlib
import signal
import sys
import threading

import numpy as np

from estimator_trainer.tools.predict import predict_plan as plans
from estimator_trainer.tools.predict.parts import Parts

ROWS = 25


def tell(**what):
    print(json.dumps(what), flush=True)


def main(folder, number, processes):
    plan = plans.load(os.path.join(folder, plans.NAME))
    fault = os.environ.get('FAULT', '')
    if fault == 'refuse':
        print('a warning\nerror: --key=x: no such key', file=sys.stderr)
        return 64
    parts = Parts(folder, plan.suffix, ROWS, plan.rows_per_part)
    missing = parts.missing()
    tell(rows=ROWS, there=ROWS - sum(len(parts.range(part)) for part in missing), signature='predict')
    for part in missing:
        if part % processes == number:
            rows = parts.range(part)
            parts.write(part, [{'id': np.arange(rows.start, rows.stop)}])
            tell(done=len(rows))
            misbehave(fault, pathlib.Path(folder).parent / 'done_once')
    return 0


def misbehave(fault, done_once):
    if not fault or done_once.exists():
        return
    done_once.touch()
    if fault == 'die':
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == 'raise':
        raise RuntimeError('it cannot go on')
    elif fault.startswith('SIG'):
        os.kill(os.getppid(), signal.Signals[fault])
    threading.Event().wait()  # until it is killed


if __name__ == '__main__':
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
