"""this_process.gpus: counts, shares and texts, with files and a program in the place of a driver."""

import pytest

from estimator_trainer.this_process import gpus

NO_PROGRAM = ('no-such-nvidia-smi',)


def lists(tmp_path, body):
    program = tmp_path / 'nvidia-smi'
    program.write_text(f'#!/bin/sh\n{body}\n')
    program.chmod(0o755)
    return (str(program), '-L')


def test_the_files_of_devices_are_counted(tmp_path):
    for name in ('nvidia0', 'nvidia11', 'nvidiactl', 'nvidia-uvm'):
        (tmp_path / name).touch()
    assert gpus.on_machine(f'{tmp_path}/nvidia[0-9]*', NO_PROGRAM) == 2


@pytest.mark.parametrize(
    'body, count',
    [
        ('echo "GPU 0: NVIDIA H100 (UUID: GPU-1)"; echo "  MIG 1g.10gb Device 0: (UUID: MIG-1)"; echo "GPU 1: x"', 2),
        ('echo "NVIDIA-SMI has failed because it could not communicate with the driver"; exit 9', 0),
    ],
)
def test_without_files_the_driver_is_asked(tmp_path, body, count):
    assert gpus.on_machine(f'{tmp_path}/none*', lists(tmp_path, body)) == count


def test_without_a_driver_there_is_none(tmp_path):
    assert gpus.on_machine(f'{tmp_path}/none*', NO_PROGRAM) == 0


@pytest.mark.parametrize(
    'named, there, count',
    [
        (None, 4, 4),
        (None, 0, 0),
        ('', 4, 0),
        ('-1', 4, 0),
        ('NoDevFiles', 4, 0),
        ('2', 4, 1),
        ('3, 1', 4, 2),
        ('0,7,1', 4, 1),  # CUDA stops at a name that is none
        ('GPU-8932f937,GPU-2f', 4, 2),
        ('0', 0, 0),
    ],
)
def test_cuda_shows_what_is_named(named, there, count):
    assert gpus.visible({} if named is None else {gpus.VISIBLE: named}, there) == count


@pytest.mark.parametrize(
    'asked, has_ps, seen, number, says',
    [
        (1, False, 0, 1, ''),
        (2, False, 0, 2, ''),
        (1, False, 4, 1, 'devices: 4 GPU(s), 1 replica(s) in this process'),
        (0, False, 4, 4, 'devices: 4 GPU(s), 4 replica(s) in this process (--num_replicas=auto)'),
        (0, False, 0, 1, 'devices: 0 GPU(s), 1 replica(s) in this process (--num_replicas=auto)'),
        (0, True, 4, 1, 'devices: 4 GPU(s), 1 replica(s) in this process (--num_replicas=auto)'),
    ],
)
def test_replicas(asked, has_ps, seen, number, says):
    assert gpus.replicas(asked, has_ps, seen) == (number, [says] if says else [])


@pytest.mark.parametrize(
    'tasks, others, each, there, dealt, are_shared',
    [
        (2, 0, 1, 2, ['0', '1'], False),
        (2, 1, 1, 2, ['0', '1', '0'], False),
        (2, 1, 1, 4, ['0', '1', '2'], False),
        (2, 0, 2, 4, ['0,1', '2,3'], False),
        (2, 1, None, 4, ['0,1', '2,3', '0,1'], False),
        (2, 0, None, 3, ['0', '1'], False),
        (2, 1, 1, 1, ['0', '0', '0'], True),
        (3, 0, None, 2, ['0', '1', '0'], True),
        (1, 0, 8, 2, ['0,1'], False),  # the task itself refuses so many replicas
    ],
)
def test_each_task_gets_gpus_of_its_own_as_long_as_there_are_some(tasks, others, each, there, dealt, are_shared):
    assert gpus.shares(tasks, others, each, there) == (dealt, are_shared)


def test_memory_grows_unless_the_user_has_chosen():
    chosen, unset = {'TF_FORCE_GPU_ALLOW_GROWTH': 'false'}, {}
    gpus.let_memory_grow(chosen)
    gpus.let_memory_grow(unset)
    assert (*chosen.values(), *unset.values()) == ('false', 'true')


@pytest.mark.parametrize(
    'text, says',
    [
        ('failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected', 'nvidia-smi -L'),
        ('Could not find cuda drivers on your machine, GPU will not be used.', 'tensorflow[and-cuda]'),
        ('Cannot dlopen some GPU libraries. Skipping registering GPU devices...', 'tensorflow[and-cuda]'),
        ('CUDA driver version is insufficient for CUDA runtime version', 'which CUDA it can run'),
        ('no kernel image is available for execution on the device', 'a newer TensorFlow'),
        ('DNN library initialization failed. Look at the errors above for more details.', 'cuDNN does not work'),
        ('NCCL: invalid usage. Duplicate GPU detected : rank 0 and rank 1 both on CUDA device', 'fewer workers'),
        ('Matrix size-incompatible: In[0]: [2,3], In[1]: [4,5]', ''),
    ],
)
def test_errors_have_a_cure(text, says):
    meaning = gpus.meaning_of(text)
    assert says in meaning and bool(says) == bool(meaning)


@pytest.mark.parametrize(
    'text, is_memory',
    [
        ('OOM when allocating tensor with shape[64,512] and type float on /device:GPU:0 by allocator GPU_0_bfc', True),
        ('failed to allocate 2.00GiB (2147483648 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory', True),
        ('CUDA_ERROR_NO_DEVICE', False),
    ],
)
def test_memory(text, is_memory):
    assert gpus.is_out_of_memory(text) == is_memory
