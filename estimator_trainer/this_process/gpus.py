"""The NVIDIA GPUs of this machine, and those that a process sees; what TensorFlow's errors about them mean. Never
imports TensorFlow.

None of it has met a GPU yet, and none of the texts below has been seen.
"""

import glob
import os
import re
import shutil
from collections.abc import Mapping, Sequence

from estimator_trainer.this_process.child_process import PIPE, Child, TookTooLong

VISIBLE = 'CUDA_VISIBLE_DEVICES'  # of CUDA: numbers or names of the GPUs that a process sees, separated by commas
NONE_VISIBLE = '-1'
SHARED = 'ESTIMATOR_TRAINER_SHARED_GPU'  # '1': another training task of this machine computes on the same GPU
_GROWTH = 'TF_FORCE_GPU_ALLOW_GROWTH'
_DEVICES = '/dev/nvidia[0-9]*'
_OTHER_DEVICES = '/dev/kfd'  # AMD's
_LIST = ('nvidia-smi', '-L')
_LIST_SECS = 10  # with a driver that has to be loaded first

INSTALL = 'pip install "tensorflow[and-cuda]"'
_MEANINGS = (
    (
        re.compile(r'CUDA_ERROR_NO_DEVICE|no CUDA-capable device is detected'),
        f'this process sees no GPU: nvidia-smi -L lists those of the machine, and {VISIBLE} must not hide them',
    ),
    (
        re.compile(
            r'Could not find cuda drivers|Cannot dlopen some GPU libraries|CUDA driver version is insufficient'
            r'|CUDA_ERROR_(SYSTEM_DRIVER_MISMATCH|COMPAT_NOT_SUPPORTED_ON_DEVICE)'
        ),
        f"TensorFlow cannot use this machine's GPU: {INSTALL} brings the libraries, and nvidia-smi shows whether the "
        'driver works and which CUDA it can run',
    ),
    (
        re.compile(r'no kernel image is available|CUDA_ERROR_(NO_BINARY_FOR_GPU|INVALID_PTX|UNSUPPORTED_PTX_VERSION)'),
        'this TensorFlow has no code for this kind of GPU: take a newer TensorFlow or a newer driver',
    ),
    (
        re.compile(r'DNN library (is not found|initialization failed)|CUDNN_STATUS_(NOT_INITIALIZED|VERSION_MISMATCH)'),
        f"cuDNN does not work: {INSTALL} brings the one that fits; another process may hold the GPU's memory, which "
        'nvidia-smi shows',
    ),
    (
        re.compile(r'Duplicate GPU detected'),
        'two tasks compute on one GPU, which NCCL refuses: let CUDA_VISIBLE_DEVICES give each task another GPU, or '
        'start fewer workers',
    ),
)
_OUT_OF_MEMORY = re.compile(r'OOM when allocating|CUDA_ERROR_OUT_OF_MEMORY|CUDNN_STATUS_ALLOC_FAILED')


def on_machine(devices: str = _DEVICES, list_command: Sequence[str] = _LIST) -> int:
    """Counts the GPUs of this machine or container: by the files of its devices, else by NVIDIA's own list.

    Args:
        devices: a glob of the files.
        list_command: prints a line for each GPU.
    """
    files = len(glob.glob(devices))
    if files or shutil.which(list_command[0]) is None:
        return files
    try:
        with Child(list_command, stdout=PIPE, stderr=PIPE) as child:
            done = child.finish(_LIST_SECS)
    except (OSError, TookTooLong):  # a driver that does not work
        return 0
    return sum(line.startswith(b'GPU ') for line in done.out.splitlines()) if done.code == 0 else 0


def visible(environ: Mapping[str, str], there: int | None = None) -> int:
    """Counts the GPUs that CUDA shows a process: those that are named before the first name that is none.

    Args:
        there: GPUs of the machine; None: they are counted.
    """
    named = environ.get(VISIBLE)
    if named is not None and not _is_gpu(named.partition(',')[0], 1 << 20):
        return 0
    there = on_machine() if there is None else there
    if named is None:
        return there
    count = 0
    for name in named.split(','):
        if not _is_gpu(name, there):
            break
        count += 1
    return min(count, there)


def _is_gpu(name: str, there: int) -> bool:
    name = name.strip()
    return name.startswith(('GPU-', 'MIG-')) or (name.isdecimal() and int(name) < there)


def may_be_used(environ: Mapping[str, str]) -> bool:
    """Whether this process may compute on GPUs, of AMD too."""
    hidden = environ.get(VISIBLE) in ('', NONE_VISIBLE)
    return not hidden and any(glob.glob(pattern) for pattern in (_DEVICES, _OTHER_DEVICES))


def replicas(asked: int, has_ps: bool, seen: int) -> tuple[int, list[str]]:
    """The number of --num_replicas, and lines that say what the process has.

    Args:
        asked: 0 for auto.
        has_ps: the process trains with parameter servers, and so has one replica.
        seen: `visible`.
    """
    number = asked or (1 if has_ps else max(1, seen))
    line = f'devices: {seen} GPU(s), {number} replica(s) in this process{"" if asked else " (--num_replicas=auto)"}'
    return number, [line] if seen or not asked else []


def shares(tasks: int, others: int, each: int | None, there: int) -> tuple[list[str], bool]:
    """Deals the GPUs of a machine to the tasks of a cluster.

    Args:
        tasks: that train.
        others: that evaluate. They get GPUs of their own where some are left.
        each: GPUs of a task; None: as many as there are for each that trains, at least one.
        there: GPUs of the machine, at least one.

    Returns:
        CUDA_VISIBLE_DEVICES of each task, and whether tasks that train share a GPU.
    """
    each = min(each or max(1, there // tasks), there)
    dealt = [range(first, first + each) for first in range(0, (tasks + others) * each, each)]
    return [','.join(str(number % there) for number in numbers) for numbers in dealt], tasks * each > there


def let_memory_grow(environ: dict[str, str] | os._Environ) -> None:
    """Lets TensorFlow take memory of a GPU as it needs it, and not all of it at once, unless the user has chosen.
    Called before TensorFlow is imported."""
    environ.setdefault(_GROWTH, 'true')


def meaning_of(text: str) -> str:
    """What an error about a GPU means, and what helps; '' if it is none of those above."""
    return next((meaning for pattern, meaning in _MEANINGS if pattern.search(text)), '')


def is_out_of_memory(text: str) -> bool:
    """Whether an error says that a device has no memory left."""
    return bool(_OUT_OF_MEMORY.search(text))


def not_seen(there: int) -> str:
    """The warning of a task that sees `there` GPUs, and whose TensorFlow sees none."""
    return (
        f'this task has {there} GPU(s), and TensorFlow sees none of them: it computes on the CPU. {INSTALL} brings '
        f"CUDA's libraries; nvidia-smi shows whether the driver works; {VISIBLE}=-1 hides the GPUs"
    )
