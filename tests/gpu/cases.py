"""What is special on GPUs: one function for each case, which returns what was seen."""

import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable

from estimator_trainer import exit_codes
from estimator_trainer.config.job_flags import LOOPS
from tests.gpu.play import BATCH, ROOT, STEPS, Failed, Play, accuracy, largest_difference, weights, within

_NEAR = 1e-4  # sums of float32 in another order
_NEAR_ON_GPU = 1e-3  # other kernels as well
_ACCURACY = 0.05  # of 64 examples of an evaluation
_HUGE_BATCH = 500_000  # its first convolution takes over 40 GB


@dataclasses.dataclass(frozen=True)
class Case:
    """`gpus`: how many it takes. `is_logical`: logical CPUs can stand in for them."""

    name: str
    what: str
    play: Callable[[Play], str]
    gpus: int = 1
    is_logical: bool = True


CASES: list[Case] = []


def case(what: str, gpus: int = 1, is_logical: bool = True):
    """Makes a case of a function."""

    def add(play: Callable[[Play], str]):
        CASES.append(Case(play.__name__, what, play, gpus, is_logical))
        return play

    return add


@case('the weights of a CPU and of a GPU, each loop', is_logical=False)
def parity(play: Play) -> str:
    return _of_loops(lambda flag: _compared(play, (flag,), (flag,), {'on_cpu': True}, {}, _NEAR_ON_GPU))


@case('N replicas with batch B and one with batch N x B, each loop', gpus=2)
def replicas(play: Play) -> str:
    of_one = f'--batch_size={BATCH * play.number}'
    tolerance = _NEAR if play.is_logical else _NEAR_ON_GPU
    many = {'replicas': play.number}
    return _of_loops(lambda flag: _compared(play, (flag, of_one), (flag,), {}, many, tolerance))


@case('--num_replicas=auto takes all GPUs', gpus=2, is_logical=False)
def auto(play: Play) -> str:
    said = play.train(replicas='auto')[1]
    expected = f'devices: {play.number} GPU(s), {play.number} replica(s)'
    if expected not in said:
        raise Failed(f'it did not say: {expected}')
    return expected


@case('a run that was stopped and resumed with --deterministic, each loop')
def resume(play: Play) -> str:
    def of_loop(flag: str) -> str:
        flags, many = (flag, '--deterministic'), {'replicas': play.number}
        whole = play.train(*flags, **many)[0]
        half = play.train(*flags, steps=STEPS // 2, **many)[0]
        return within(largest_difference(whole, play.train(*flags, folder=half, **many)[0]), 0)

    return _of_loops(of_loop)


@case('--steps_per_call=1 and 7 with --deterministic, each loop')
def steps_per_call(play: Play) -> str:
    one, seven = '--steps_per_call=1', '--steps_per_call=7'
    return _of_loops(
        lambda flag: _compared(play, (flag, one, '--deterministic'), (flag, seven, '--deterministic'), {}, {}, 0)
    )


@case('--accumulate_steps=2 and a batch of twice the size, each loop')
def accumulation(play: Play) -> str:
    twice = f'--batch_size={2 * BATCH}'
    tolerance = _NEAR if play.is_logical else _NEAR_ON_GPU
    return _of_loops(lambda flag: _compared(play, (flag, twice), (flag, '--accumulate_steps=2'), {}, {}, tolerance))


@case('the accuracy with --mixed_precision=bfloat16 and with float32, Keras loops')
def mixed_precision(play: Play) -> str:
    return _accuracies(play, 'bfloat16')


@case('the accuracy with --mixed_precision=float16 and with float32, Keras loops', is_logical=False)
def float16(play: Play) -> str:
    return _accuracies(play, 'float16')


@case('the weights with and without --xla, Keras loops')
def xla(play: Play) -> str:
    loops = [loop for loop in LOOPS if loop != 'estimator']
    return _of_loops(lambda flag: _compared(play, (flag,), (flag, '--xla'), {}, {}, _NEAR_ON_GPU), loops)


@case('killed by SIGKILL and started again with --deterministic')
def killed(play: Play) -> str:
    flags = ('--deterministic', '--save_checkpoints_steps=10')
    folder = play.killed_after_checkpoint(*flags, step=10, replicas=play.number, steps=10 * STEPS)
    resumed = play.train(*flags, folder=folder, replicas=play.number, steps=10 * STEPS)[0]
    whole = play.train(*flags, replicas=play.number, steps=10 * STEPS)[0]
    return within(largest_difference(whole, resumed), 0)


@case('two workers with a GPU each (NCCL), and two replicas of one process', gpus=2, is_logical=False)
def a_gpu_each(play: Play) -> str:
    return _compared(play, (), (), {'replicas': 2}, {'cluster': ('--workers=2', '--noevaluator')}, _NEAR_ON_GPU)


@case("two workers on one GPU (TensorFlow's ring), and one with twice the batch", is_logical=False)
def one_gpu_for_two(play: Play) -> str:
    many = {'cluster': ('--workers=2', '--noevaluator'), 'CUDA_VISIBLE_DEVICES': '0'}
    return _compared(play, (f'--batch_size={2 * BATCH}',), ('--all_reduce=network',), {}, many, _NEAR_ON_GPU)


@case('a batch that does not fit: the exit code and the cure', is_logical=False)
def out_of_memory(play: Play) -> str:
    said = play.train(f'--batch_size={_HUGE_BATCH}', code=exit_codes.OUT_OF_MEMORY)[1]
    if '--accumulate_steps' not in said:
        raise Failed('the last line names no cure')
    return f'code {exit_codes.OUT_OF_MEMORY}, with a cure'


@case('the speed beside the plain script and PyTorch: python -m benchmarks --only=cnn', is_logical=False)
def speed(play: Play) -> str:
    command = [sys.executable, '-m', 'benchmarks', '--only=cnn', '--rounds=3']
    done = subprocess.run(command, cwd=ROOT, env=play.environ(), capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise Failed(done.stderr[-300:])
    rows = [line for line in done.stdout.splitlines() if line.startswith('|')]
    return '; '.join(re.sub(r'\s*\|\s*', ' ', row).strip() for row in rows[2:])


def _of_loops(of_loop: Callable[[str], str], loops=LOOPS) -> str:
    return ', '.join(f'{loop}: {of_loop(f"--loop={loop}")}' for loop in loops)


def _accuracies(play: Play, kind: str) -> str:
    def of_loop(flag: str) -> str:
        found = [
            accuracy(play.train(flag, *more, '--eval_steps=8', steps=10 * STEPS)[0])
            for more in ((), (f'--mixed_precision={kind}',))
        ]
        if abs(found[0] - found[1]) > _ACCURACY:
            raise Failed(f'{found[1]:.3f} in place of {found[0]:.3f}')
        return f'{found[0]:.3f} and {found[1]:.3f}'

    return _of_loops(of_loop, [loop for loop in LOOPS if loop != 'estimator'])


def _compared(play: Play, flags, others, how, other_how, tolerance) -> str:
    one, other = play.train(*flags, **how)[0], play.train(*others, **other_how)[0]
    assert weights(one)
    return within(largest_difference(one, other), tolerance)
