"""The page that compares the trials: the command `report` makes it. This is the one place that calls it."""

import os
import subprocess
import sys
from collections.abc import Sequence

from estimator_trainer import exit_codes
from estimator_trainer.config import commands
from estimator_trainer.run_dir import file_names

NAME = 'sweep.html'
_COMMAND = 'report'
_SECS = 300


def write(folder: str, model_dirs: Sequence[str]) -> str | None:
    """Writes the page into the folder of the sweep, and returns its path; None where there is no page to be had. A page
    that fails costs the sweep nothing: the table and sweep.json are there."""
    model_dirs = [each for each in model_dirs if os.path.exists(os.path.join(each, file_names.CONFIG))]  # it has begun
    if _COMMAND not in commands.COMMANDS or not model_dirs:
        return None
    path = os.path.join(folder, NAME)
    argv = [sys.executable, '-m', 'estimator_trainer', _COMMAND, *model_dirs, f'--out={path}']
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECS)
    except subprocess.TimeoutExpired:
        return None
    return path if done.returncode == exit_codes.OK and os.path.exists(path) else None
