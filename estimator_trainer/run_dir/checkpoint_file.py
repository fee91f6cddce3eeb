"""The file `checkpoint` of a model_dir, which names the checkpoint to go on from. Read without TensorFlow.

TensorFlow writes it as a text protocol buffer, whole or not at all, after each checkpoint; the trainer writes it anew
when it falls back to an older one. Its first line is such as

    model_checkpoint_path: "model.ckpt-1200"
"""

import os
import re

NAME = 'checkpoint'
_PATH = re.compile(r'^model_checkpoint_path:\s*"(.*)"\s*$', re.MULTILINE)
_INDEX = re.compile(r'.*-(\d+)\.index')
_STEP = re.compile(r'^model_checkpoint_path:\s*".*-(\d+)"\s*$', re.MULTILINE)


def named_step(model_dir: str) -> int | None:
    """The global step of the checkpoint that the file names; None where there is no such file, or none in it."""
    found = _named(model_dir, _STEP)
    return int(found) if found else None


def are_there(model_dir: str) -> bool:
    """Whether a folder holds a checkpoint, or names one: a remote file system may show the name first."""
    if _named(model_dir, _PATH):
        return True
    try:
        return any(name.endswith('.index') for name in os.listdir(model_dir))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # nobody knows


def steps(model_dir: str) -> set[int]:
    """The global steps in the names of the checkpoints of a folder."""
    try:
        found = [_INDEX.fullmatch(name) for name in os.listdir(model_dir)]
    except OSError:
        return set()
    return {int(name[1]) for name in found if name}


def written_at(model_dir: str) -> float | None:
    """When the checkpoint that the file names was written, in seconds since the epoch; None where there is none."""
    found = _named(model_dir, _PATH)
    try:
        return os.stat(os.path.join(model_dir, f'{found}.index')).st_mtime if found else None
    except OSError:
        return None


def _named(model_dir: str, pattern: re.Pattern) -> str | None:
    try:
        with open(os.path.join(model_dir, NAME), encoding='utf-8', errors='replace') as file:
            found = pattern.search(file.read())
    except OSError:
        return None
    return found[1] if found else None
