"""Trains in processes of their own, on GPUs or on logical CPUs, and compares what they have computed."""

import json
import os
import pathlib
import subprocess
import sys
import time

from estimator_trainer import compat
from estimator_trainer.this_process import gpus

ROOT = pathlib.Path(__file__).parents[2]
BATCH, STEPS = 32, 30
_BOUND_SECS = 600
_EXACT_FLOAT32 = {'NVIDIA_TF32_OVERRIDE': '0'}  # a GPU's tensor cores round float32 to 19 bits otherwise
_FLAGS = ('--job=mnist', '--export=none', '--log_every_steps=1000', '--eval_steps=1', '--report=off')


class Failed(Exception):
    """A run has ended otherwise than expected, or two runs have computed different things."""


class Play:
    """What the cases work with.

    Args:
        folder: for the runs.
        number: GPUs, or logical CPUs in their place.
        is_logical: whether they are logical CPUs.
    """

    def __init__(self, folder: pathlib.Path, number: int, is_logical: bool):
        self.number, self.is_logical, self._folder = number, is_logical, folder
        self._made = 0

    def new_folder(self) -> pathlib.Path:
        self._made += 1
        return self._folder / f'run{self._made}'

    def train(self, *flags, folder=None, replicas=1, on_cpu=False, steps=STEPS, cluster=(), code=0, **environ):
        """Trains to the end. Returns the model_dir, and what was said."""
        folder = folder or self.new_folder()
        done = subprocess.run(
            self.command(folder, *flags, replicas=replicas, steps=steps, cluster=cluster),
            env=self.environ(on_cpu, environ),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_BOUND_SECS,
        )
        if done.returncode != code:
            raise Failed(f'code {done.returncode}, expected {code}: {" | ".join(done.stderr.splitlines()[-4:])}')
        return folder, done.stderr

    def command(self, folder, *flags, replicas=1, steps=STEPS, cluster=()):
        ours = [*_FLAGS, f'--model_dir={folder}', f'--max_steps={steps}', f'--num_replicas={replicas}']
        batch = [] if any(flag.startswith('--batch_size') for flag in flags) else [f'--batch_size={BATCH}']
        front = ['cluster', *cluster, '--'] if cluster else []
        return [sys.executable, '-m', 'estimator_trainer', *front, *ours, *batch, *flags]

    def environ(self, on_cpu=False, more=None):
        hidden = {gpus.VISIBLE: gpus.NONE_VISIBLE} if on_cpu or self.is_logical else {}
        return {**os.environ, **_EXACT_FLOAT32, **hidden, 'PYTHONPATH': str(ROOT), **(more or {})}

    def killed_after_checkpoint(self, *flags, step, **how) -> pathlib.Path:
        """Trains, and is killed when the checkpoint of a step is there."""
        folder = self.new_folder()
        with subprocess.Popen(
            self.command(folder, *flags, **how),
            env=self.environ(),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                until = time.monotonic() + _BOUND_SECS
                while not (folder / f'model.ckpt-{step}.index').exists():
                    if process.poll() is not None or time.monotonic() > until:
                        raise Failed(f'it has not saved step {step}')
                    time.sleep(0.01)
            finally:
                process.kill()
        return folder


def weights(folder) -> dict:
    """The variables of the newest checkpoint that hold floats, by their name."""
    reader = compat.bring_up().train.load_checkpoint(str(folder))
    shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    return {name: reader.get_tensor(name) for name in shapes if types[name].is_floating}


def largest_difference(one, other) -> float:
    """Of the weights of two runs."""
    import numpy as np

    first, second = weights(one), weights(other)
    if first.keys() != second.keys():
        raise Failed(f'other variables: {sorted(first.keys() ^ second.keys())}')
    return max(float(np.max(np.abs(first[name] - second[name]), initial=0)) for name in first)


def within(difference: float, tolerance: float) -> str:
    """The difference as text. Raises Failed: it is over the tolerance."""
    if not difference <= tolerance:
        raise Failed(f'differ by {difference:.2g}, over the tolerance of {tolerance:g}')
    return 'equal bit for bit' if not difference else f'differ by {difference:.2g} (tolerance {tolerance:g})'


def accuracy(folder) -> float:
    """Of the last evaluation."""
    path = folder / 'eval' / 'metrics.jsonl'
    return json.loads(path.read_text().splitlines()[-1])['accuracy']
