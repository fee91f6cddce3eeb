"""On the node of a task: an actor that runs the trainer as a process and answers for it.

Nothing here imports ray, nor TensorFlow: the trainer may run in another environment, `python` of the job
description, and gets nothing of the actor's but what `environment` leaves.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from estimator_trainer.run_dir import protocol
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.submit import tied
from estimator_trainer.supervisor.processes import ports, process

_OF_THE_ACTOR = ('PYTHON', 'RAY_', 'VIRTUAL_ENV', 'ESTIMATOR_TRAINER_')


def environment(environ: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What a task's process inherits of its actor's environment, and what it is given."""
    kept = {
        name: value for name, value in environ.items() if not name.startswith(_OF_THE_ACTOR) and name != 'TF_CONFIG'
    }
    return {**kept, **given}


class TaskActor:
    """One task on this node. Its output goes where the actor's goes.

    Args:
        name: 'worker:1'; Ray puts it before each line of output.
    """

    def __init__(self, name: str):
        self._name = name
        self._claim = None
        self._group: process.ProcessGroup | None = None
        self._end = None
        self._error_file = ''

    def __repr__(self):
        return self._name

    def port(self) -> int:
        """A free port of this node, which no other task here is given."""
        if self._claim is None:
            self._claim = ports.claim(1)
        return self._claim.ports[0]

    def start(self, argv: Sequence[str], given: Mapping[str, str], folder: str | None) -> int:
        """Starts the process in `folder`, and gives its number. Raises OSError."""
        self._end = None
        self._folder = tempfile.TemporaryDirectory(prefix='estimator_trainer-', ignore_cleanup_errors=True)
        self._error_file = os.path.join(self._folder.name, 'error.json')
        env = environment(os.environ, {**given, protocol.ERROR_FILE: self._error_file})
        popen = subprocess.Popen(
            [sys.executable, '-IS', tied.__file__, str(os.getpid()), *argv],
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._group = process.ProcessGroup(popen)
        return popen.pid

    def poll(self) -> tuple[int, dict] | None:
        """None while it runs; else its exit code, or minus the number of the signal, and its error file."""
        if self._end is None and (code := self._group.poll()) is not None:
            self._end = code, protocol.read_json(self._error_file)
            self._folder.cleanup()
        return self._end

    def tell(self, signum: int) -> None:
        self._group.send(signal.Signals(signum))

    def training(self, model_dir: str) -> dict:
        """What `training.json` holds, which the driver's machine need not see."""
        return RunFolder(model_dir).training
