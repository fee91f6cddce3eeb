"""Runs the programs of one case, bounded, and leaves none of them behind."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from estimator_trainer.this_process import parent_process
from tests.chaos import faults

REPOSITORY = pathlib.Path(__file__).parents[2]
BOUND_SECS = 420  # for one program, against hangs; most take 10 to 30 s on two quiet cores, three kills 70 s
MAX_STEPS, SAVE_STEPS = 100, 20
JOB = (
    '--job=tests.chaos.job:job',
    f'--max_steps={MAX_STEPS}',
    '--batch_size=16',
    '--deterministic',
    '--intra_op_threads=1',  # as in a local cluster of two on two cores
)
SAVING = (f'--save_checkpoints_steps={SAVE_STEPS}',)
FURTHER = []  # flags of every trainer, of --flag
FURTHER_OF_CLUSTERS = []  # flags of every run_local_cluster.sh, of --cluster_flag


class Hangs(AssertionError):
    """A program has not ended in time."""


class Program:
    """A program under way, in a process group of its own. Its output goes to a file."""

    def __init__(self, command, folder, environ, cwd=None):
        self._log = folder / f'output-{len(list(folder.glob("output-*")))}'
        parent = os.getpid()
        with open(self._log, 'wb') as log:
            self._popen = subprocess.Popen(
                [str(part) for part in command],
                cwd=cwd or REPOSITORY,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: _prepare(parent),
            )
        self.pid = self._popen.pid
        self.ended_at = None  # seconds since the epoch

    @property
    def output(self) -> str:
        return self._log.read_text(errors='replace')

    @property
    def last_line(self) -> str:
        """The last one that tells something."""
        return next((line for line in reversed(self.output.splitlines()) if line.strip()), '')

    def poll(self):
        """Its exit code as a shell gives it; None while it runs."""
        code = self._popen.poll()
        if code is not None and self.ended_at is None:
            self.ended_at = time.time()
        return 128 - code if code is not None and code < 0 else code

    def wait(self, secs=BOUND_SECS) -> int:
        """The exit code.

        Raises:
            Hangs: it does not end within `secs`.
        """
        try:
            faults.until(lambda: self.poll() is not None, '', secs)
        except TimeoutError:
            raise Hangs(f'still there after {secs} s; {self._log}:\n{self.output}') from None
        return self.poll()

    def says(self, text, secs=faults.WAIT_SECS) -> None:
        """Waits until it has printed `text`."""
        faults.until(lambda: text in self.output or self.poll() is not None, f'no {text!r}', secs)
        assert text in self.output, self.output

    def send(self, signum) -> None:
        os.kill(self.pid, signum)


class Stage:
    """The folder of a case, its scene and its programs. At its end none of them is left.

    Args:
        folder: is made.
        plan: the faults.
    """

    def __init__(self, folder, *plan):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.model_dir = self.folder / 'model'
        self.scene = faults.Scene(self.folder)
        self.scene.plan(plan)
        self.plan = plan
        self.programs = []

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        for pid in self.running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for program in self.programs:
            program.wait()

    def start(self, command, cwd=None, **environ) -> Program:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name != 'TF_CONFIG' and not name.startswith('ESTIMATOR_TRAINER_')
        }
        path = os.pathsep.join([str(REPOSITORY), os.environ.get('PYTHONPATH', '')]).rstrip(os.pathsep)
        self.programs.append(
            Program(
                command,
                self.folder,
                {
                    **inherited,
                    'PYTHONPATH': path,
                    'PYTHON': sys.executable,
                    'PYTHONUNBUFFERED': '1',
                    faults.FOLDER: str(self.folder),
                    **environ,
                },
                cwd,
            )
        )
        return self.programs[-1]

    def trainer(self, *flags, before=(), **environ) -> Program:
        """`python -m estimator_trainer`, with the job's flags. `before`: what the command is wrapped in."""
        return self.start(
            [
                *before,
                sys.executable,
                '-m',
                'estimator_trainer',
                *JOB,
                *SAVING,
                *FURTHER,
                f'--model_dir={self.model_dir}',
                *flags,
            ],
            **environ,
        )

    def cluster(self, shape, *flags, **environ) -> Program:
        """`run_local_cluster.sh SHAPE -- FLAGS`, with the job's flags."""
        return self.start(
            [
                REPOSITORY / 'run_local_cluster.sh',
                *shape,
                *FURTHER_OF_CLUSTERS,
                '--',
                *JOB,
                *SAVING,
                *FURTHER,
                f'--model_dir={self.model_dir}',
                *flags,
            ],
            **environ,
        )

    def running(self) -> list:
        """The processes of this case that live, by their environment."""
        mark = f'{faults.FOLDER}={self.folder}'.encode()
        found = []
        for entry in pathlib.Path('/proc').glob('[0-9]*'):
            with contextlib.suppress(OSError):
                if mark in (entry / 'environ').read_bytes().split(b'\0'):
                    found.append(int(entry.name))
        return found

    def is_empty(self, secs: float = 5) -> bool:
        """Whether every process ends within `secs`."""
        try:
            faults.until(lambda: not self.running(), '', secs)
        except TimeoutError:
            return False
        return True


def _prepare(parent):
    parent_process.tie_to_parent(parent)
    for signum in (signal.SIGINT, signal.SIGHUP):  # ignored in a shell's background job, and under nohup
        signal.signal(signum, signal.SIG_DFL)
