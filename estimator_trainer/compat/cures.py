"""Says what to do, after the traceback of an exception that has ended a program, where the exception tells it.

The line begins with `error_lines.COMPAT`; `cluster` and `verify` find it in what the program has printed.
"""

import re
import sys

from estimator_trainer import error_lines
from estimator_trainer.compat import tf1_advice

_NO_CHIEF = re.compile(r'If "cluster" is set in TF_CONFIG, it must have one "\w+" node')


def install(tf1: bool) -> None:
    """From here on the line follows the traceback. `tf1`: the program runs under --tf1."""
    shown = sys.excepthook

    def hook(kind, error, where):
        shown(kind, error, where)
        cure = of(error, tf1)
        if cure:
            print(f'{error_lines.COMPAT}{cure}', file=sys.stderr, flush=True)

    sys.excepthook = hook


def of(error: BaseException, tf1: bool) -> str | None:
    """What to do about `error`; None where it does not tell."""
    if isinstance(error, ValueError) and _NO_CHIEF.search(str(error)):
        strategy = f'tf.distribute.{"experimental." if tf1 else ""}MultiWorkerMirroredStrategy()'
        return (
            'the Estimator has no strategy, and TF_CONFIG names workers alone, which need one: give '
            f'RunConfig(train_distribute={strategy}), or parameter servers, as in '
            '`cluster --program=PROGRAM --workers=2 --ps=1`'
        )
    if isinstance(error, ModuleNotFoundError) and error.name == 'horovod':
        return (
            'the program imports Horovod, which is not installed: --horovod runs programs of horovod.tensorflow '
            'without it, as in `python -m estimator_trainer.compat run --horovod PROGRAM`; `cluster --program` takes '
            'it as well'
        )
    name = None if tf1 else tf1_advice.old_name(error, sys.modules.get('tensorflow'))
    return name and tf1_advice.told(name)
