"""Whole runs of the command, with a trainer of a few lines of shell. Every one is bounded: at the
bound the supervisor is killed, and the kernel takes its tasks along."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tests.processes import Run

ROOT = pathlib.Path(__file__).parents[2]

COMMAND = """
import os, sys
from estimator_trainer.supervisor import cluster_command, gang
from estimator_trainer.this_process import console
cluster_command.TRAINER = ('sh', 'trainer.sh')
gang.CAUSE_SECS = float(os.environ.get('CAUSE_SECS', gang.CAUSE_SECS))
gang.STACKS_SECS = float(os.environ.get('STACKS_SECS', gang.STACKS_SECS))
console.DRAIN_SECS = float(os.environ.get('DRAIN_SECS', 60))  # a test reads all there is, on a slow machine too
sys.exit(cluster_command.main(sys.argv[1:]))
"""

# What the scripts of tests build on. $attempt counts gangs, $life what was restarted alone.
TRAINER = """
case "$*" in *--dry_run*) exit 0;; esac
rest=${TF_CONFIG##*'"type":"'}
index=${rest##*:}
who=${rest%%'"'*}:${index%%'}'*}
attempt=${ESTIMATOR_TRAINER_GENERATION%%-*}
case $ESTIMATOR_TRAINER_ERROR_FILE in *.2.error.json) life=2;; *) life=1;; esac

here() {  # says that we have come so far
  echo > "here-$1.$$" && mv "here-$1.$$" "here-$1"
}
wait_for() {  # others
  for other; do until [ -e "here-$other" ]; do sleep .02; done; done
}
board() {  # state, step, checkpoint_step
  printf '{"state":"%s","step":%s,"checkpoint_step":%s,"max_steps":100,"generation":"%s"}' \\
    "$1" "$2" "$3" "$ESTIMATOR_TRAINER_GENERATION" > "model/board.$$"
  mv "model/board.$$" model/training.json
}
reports() {  # step
  printf '{"step":%s,"time":%s}\\n' "$1" "$(date +%s.%N)" >> model/metrics.jsonl
}
error() {  # code, step, message, peer or null; ends the task
  printf '{"code":%s,"step":%s,"message":"%s","peer":%s,"traceback":["Traceback:","  boom"]}' \\
    "$1" "$2" "$3" "$4" > "$ESTIMATOR_TRAINER_ERROR_FILE"
  exit "$1"
}
for_ever() { exec sleep 600; }
"""


class ClusterRun(Run):
    """A run of the command. Its model_dir is `model`."""

    def said(self, text):
        """The lines of the supervisor's that hold `text`."""
        lines = self.err.splitlines()
        return [line for line in lines if line.startswith('[cluster] ') and text in line]

    @property
    def report(self):
        return self.json('model/report.json')

    @property
    def status(self):
        return self.json('model/status.json')


@pytest.fixture
def cluster(tmp_path):
    """cluster('shell script', '--flag', …) -> ClusterRun, in tmp_path, with the model_dir `model`."""
    (tmp_path / 'model').mkdir()
    with contextlib.ExitStack() as runs:

        def start(script, *flags, trainer_flags=('--model_dir=model',), **environ):
            (tmp_path / 'new.sh').write_text(TRAINER + script)
            (tmp_path / 'new.sh').rename(tmp_path / 'trainer.sh')  # a shell may be reading the old
            argv = ['--isolate=off', '--backoff_secs=.01', *flags, '--', *trainer_flags]
            popen = subprocess.Popen(
                [sys.executable, '-c', COMMAND, *argv],
                cwd=tmp_path,
                env={**os.environ, 'PYTHONPATH': str(ROOT), 'TMPDIR': str(tmp_path), **environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
            runs.enter_context(popen)
            runs.callback(popen.kill)
            return ClusterRun(tmp_path, popen)

        yield start


@pytest.fixture
def one_worker(cluster):
    """As `cluster`, for a cluster of one worker without an evaluator."""
    return lambda script, *flags, **more: cluster(script, '--workers=1', '--noevaluator', *flags, **more)
