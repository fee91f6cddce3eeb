"""The actor of a task, on its node: runs the trainer as a process and answers for it.

Nothing here imports ray, nor TensorFlow: the trainer may run in another environment, `python` of the job
description, and gets nothing of the actor's but what `environment` leaves.
"""

import contextlib
import os
import pathlib
import sys
import tempfile
from collections.abc import Mapping, Sequence

from estimator_trainer.run_dir import protocol
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.supervisor.processes import ports
from estimator_trainer.this_process import hung_files, parent_process
from estimator_trainer.this_process.child_process import Child, TookTooLong

_KEY = 'run.key'
_KEY_SECS = 60
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
        self._claim: ports.Claim | None = None
        self._process: Child | None = None
        self._end: tuple[int, dict] | None = None
        self._error_file = ''
        self.files = hung_files.BoundedFiles(lambda text: print(text, file=sys.stderr), 'the model_dir')

    def __repr__(self) -> str:
        return self._name

    def port(self) -> int:
        """A free port of this node, which no other task here is given."""
        if self._claim is None:
            self._claim = ports.claim(1)
        return self._claim.ports[0]

    def new_key(self, python: str, given: Mapping[str, str], folder: str | None) -> bytes:
        """A new key of the run, made by the trainer's environment; b'' if that lacks the extra `secure`."""
        with tempfile.TemporaryDirectory(prefix='estimator_trainer-') as own:
            path = os.path.join(own, _KEY)
            command = (python, '-m', 'estimator_trainer.secure.run_key', path)
            with contextlib.suppress(OSError, TookTooLong):
                with Child(command, env=environment(os.environ, given), cwd=folder, ties=False) as child:
                    child.finish(_KEY_SECS)
                return pathlib.Path(path).read_bytes()
        return b''

    def start(self, argv: Sequence[str], given: Mapping[str, str], folder: str | None, key: bytes = b'') -> int:
        """Starts the process in `folder`, and gives its number. `key`: the key of the run, which the process finds in a
        file that only its user can read; b'': it finds none. Raises OSError."""
        if self._process:
            self._process.close()  # the driver took it for lost while this actor did not answer
        self._end = None
        self._folder = tempfile.TemporaryDirectory(prefix='estimator_trainer-', ignore_cleanup_errors=True)
        self._error_file = os.path.join(self._folder.name, 'error.json')
        env = environment(os.environ, {**given, protocol.ERROR_FILE: self._error_file})
        if key:
            env[protocol.RUN_KEY_FILE] = os.path.join(self._folder.name, _KEY)
            with open(os.open(env[protocol.RUN_KEY_FILE], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), 'wb') as file:
                file.write(key)
        self._process = Child(parent_process.tying(tuple(argv)), env=env, cwd=folder, ties=False)
        return self._process.pid

    def poll(self) -> tuple[int, dict] | None:
        """None while it runs; else its exit code, or minus the number of the signal, and its error file."""
        if self._end is None and self._process and (code := self._process.poll()) is not None:
            self._end = code, protocol.read_json(self._error_file)
            self._folder.cleanup()
        return self._end

    def send(self, signum: int) -> None:
        if self._process:
            self._process.send(signum)

    def training(self, model_dir: str) -> dict:
        """What `training.json` holds, which the driver's machine need not see. {} while the file system hangs: this
        actor has to answer for its process."""
        return self.files.call(lambda: RunFolder(model_dir).training, {})
