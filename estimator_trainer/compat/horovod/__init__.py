"""`horovod.tensorflow` for programs that import it, where Horovod itself is not installed.

    import estimator_trainer.compat.horovod   # before the program imports horovod
    import horovod.tensorflow as hvd

    python -m estimator_trainer.compat run --horovod script.py   # in each task of an engine, or with TF_CONFIG
    python -m estimator_trainer cluster --program=script.py --horovod --workers=2   # on one machine

Horovod's last release is of 2023 and is not built for today's TensorFlow. The ranks are the tasks of the cluster that
train (`ranks`). They find each other at their addresses (`joining`), and exchange arrays in shared memory, or over TCP
(`socket_mesh`). An operation of a graph calls that from Python (`collectives`). The modules `hvd_*` have Horovod's
names; a real Horovod that is installed goes before them. Importing this imports no TensorFlow.
"""

import os

from estimator_trainer import compat
from estimator_trainer.compat.horovod import module_names, ranks

compat.install()
ranks.take(os.environ)
module_names.install()
