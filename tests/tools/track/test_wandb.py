"""Weights & Biases, without a network: what its library is given, and keeps."""

import os
import subprocess
import sys

import pytest

pytest.importorskip('wandb', reason='pip install ".[wandb]"')

from tests.tools.track import a_run


def track(folder, mode):
    """The command, in a process of its own: the library reads its settings once in each."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith('WANDB_')}
    return subprocess.run(
        [sys.executable, '-m', 'estimator_trainer', 'track', str(folder), '--to=wandb'],
        env={**environ, 'WANDB_MODE': mode, 'HOME': str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_offline_it_is_kept_for_later_and_without_a_key_it_is_not_sent(tmp_path):
    a_run.make(tmp_path)
    a_run.ended(tmp_path)
    done = track(tmp_path, 'online')
    assert done.returncode == 1 and done.stderr.endswith('not everything is sent\n')
    done = track(tmp_path, 'offline')
    assert done.returncode == 0, done.stderr
    (kept,) = (tmp_path / 'track' / 'wandb').glob('offline-run-*/run-*.wandb')
    for words in (b'learning_rate', b'train/loss', b'train/step', b'eval/accuracy'):
        assert words in kept.read_bytes()
    assert kept.name[4:-6] in done.stdout
