"""The process of a trial: `python -m estimator_trainer cluster` with one task, and what it has said last.

The supervisor restarts the task if it fails, keeps its logs and writes report.json. Its cores are those that this
process lets it have: it pins the task to them, and gives it as many threads.
"""

import collections
import signal
import sys
import time
from collections.abc import Mapping, Sequence

from estimator_trainer.run_dir import protocol
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.supervisor.reports import report_file
from estimator_trainer.this_process import child_process

_SUPERVISOR = (sys.executable, '-m', 'estimator_trainer', 'cluster', '--workers=1', '--noevaluator')
_LAST_LINES = 20


def command(
    model_dir: str,
    trainer_flags: Sequence[str],
    supervisor_flags: Sequence[str] = (),
    supervisor: Sequence[str] = _SUPERVISOR,
) -> tuple[str, ...]:
    """The command line of a trial."""
    return (*supervisor, *supervisor_flags, '--', *trainer_flags, f'--model_dir={model_dir}')


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a trial, without the variables that tell a task of a cluster its place."""
    return {name: value for name, value in environ.items() if name not in ('TF_CONFIG', *protocol.VARIABLES)}


class TrialProcess:
    """The process of a trial, started and pinned to `cores`, if there are any. It does not outlive this process, and
    neither does its task.

    Raises (on creation):
        OSError: it cannot be started.
    """

    def __init__(self, argv: Sequence[str], model_dir: str, cores: Sequence[int], environ: Mapping[str, str]):
        self._model_dir = model_dir
        self._began = time.monotonic()
        self._last: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
        pipe = child_process.PIPE
        self._process = child_process.Child(argv, env=environ, stdout=pipe, stderr=pipe, cores=cores)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What becomes readable when it has something to say, or ends."""
        return self._process.open_pipes

    @property
    def secs(self) -> float:
        return time.monotonic() - self._began

    def read(self) -> None:
        """Takes what it has said. Never waits."""
        for descriptor in self._process.open_pipes:
            self._last.extend(self._process.read_lines(descriptor))

    def poll(self) -> int | None:
        """Its exit code as a shell gives it, once it has ended."""
        code = self._process.poll()
        return 128 - code if code is not None and code < 0 else code

    def stop(self) -> None:
        """Tells it to save and end."""
        self._process.send(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Kills what is left of it, its task with it."""
        self.read()
        self._process.close()

    def cause(self, code: int) -> str:
        """Why it has ended with `code`, in one line."""
        return report_file.failure_reason(RunFolder(self._model_dir).report, code, self._last)
