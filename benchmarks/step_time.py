"""A model of the seconds that a step of synchronous workers takes, fitted on this machine, and what it says of others.

    python benchmarks/step_time.py [seconds]

Workers are processes on hosts of their own, joined by a network whose delay and bandwidth are chosen
(benchmarks/slow_network.py), so it needs root. Each one has one core of this machine; more workers than cores share
them. Every cluster is started once; then each link has `seconds` (8). The model is fitted on some of the measurements.
The others are predicted, and the errors are printed, then a table for clusters that do not exist here.

The seconds of a step of W workers, whose gradients have P bytes:

    shared * (fixed + per_byte * P)                           computed, where `shared` workers have one core
    + shared * (fixed_exchange + per_byte_exchanged * E)      CPU of the exchange, E = 2 (W - 1) / W * P, W > 1
    + delays * 2 (W - 1) * delay + filled * E / bandwidth     the links: what a ring needs, times two factors

The five coefficients of the first two lines and both factors are found by least squares of the relative errors.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks import machine, running  # noqa: E402
from benchmarks.slow_network import SlowNetwork  # noqa: E402

LINKS = ((0.0, 0.0), (0.001, 0.0), (0.005, 0.0), (0.0, 250e6), (0.0, 100e6), (0.001, 100e6))
SIZES = (4, 40, 100)  # MB of gradients
WORKERS = (1, 2, 3, 4)
BATCH = 8
PREDICTED = ((8, 64, 1000), ((0.0001, 1.25e9), (0.00005, 3.125e9), (0.00002, 12.5e9)))  # workers, links
_START_SECS, _END_SECS = 120, 60
_LEAST_REPORTS = 3  # of a measurement, each of two steps
_LONGEST = 5  # times `seconds`, for a link on which steps are slow
TERMS = ('fixed', 'per_byte', 'fixed_exchange', 'per_byte_exchanged', 'delays', 'filled')


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is measured or predicted.

    Attributes:
        workers: how many.
        gradients: bytes.
        delay_secs, bytes_per_sec: of each link; bytes_per_sec is 0 where it has no limit.
        cores: that the workers share; 0 where each has one of its own.
    """

    workers: int
    gradients: float
    delay_secs: float
    bytes_per_sec: float
    cores: int = 0

    @property
    def held_out(self) -> bool:
        """Whether the fit does not see it: another size of the model, another number of workers, or a mixed link."""
        return self.gradients == 40e6 or self.workers == 3 or bool(self.delay_secs and self.bytes_per_sec)

    def terms(self) -> list[float]:
        """The factors of the coefficients TERMS."""
        shared = max(1.0, self.workers / self.cores) if self.cores else 1.0
        several = float(self.workers > 1)
        exchanged = 2 * (self.workers - 1) / self.workers * self.gradients
        waits = 2 * (self.workers - 1) * self.delay_secs
        filled = exchanged / self.bytes_per_sec if self.bytes_per_sec else 0.0
        return [shared, shared * self.gradients, shared * several, shared * exchanged, waits, filled]


def fit(measured: dict[Setting, float]) -> np.ndarray:
    """The coefficients, none below 0, with the least squares of the relative errors. Seconds of a step are given."""
    rows = np.array([setting.terms() for setting in measured])
    secs = np.array(list(measured.values()))
    used = list(range(len(TERMS)))
    while True:  # what would be negative is left out
        found, *_ = np.linalg.lstsq(rows[:, used] / secs[:, None], np.ones(len(secs)), rcond=None)
        if (found >= 0).all():
            break
        used = [term for term, value in zip(used, found) if value >= 0]
    coefficients = np.zeros(len(TERMS))
    coefficients[used] = found
    return coefficients


def secs_of(setting: Setting, coefficients) -> float:
    return float(np.dot(setting.terms(), coefficients))


def main(seconds: float) -> int:
    if os.geteuid():
        print('network namespaces need root: run it with sudo', file=sys.stderr)
        return 1
    for name, text in machine.describe().items():
        print(f'{name:14} {text}', flush=True)
    print(f'\n{"":42} {"steps/s":>9} {"MB a step":>10} {"packets":>8}', flush=True)
    measured: dict[Setting, float] = {}
    for mb in SIZES:
        for workers in WORKERS:
            measured |= _cluster(workers, mb, seconds)
    known = {setting: secs for setting, secs in measured.items() if not setting.held_out}
    coefficients = fit(known)
    print(f'\n{", ".join(f"{name} {value:.3g}" for name, value in zip(TERMS, coefficients))}')
    for title, settings in (('fitted on', known), ('held out', [each for each in measured if each.held_out])):
        errors = [secs_of(setting, coefficients) / measured[setting] - 1 for setting in settings]
        middle, lowest, highest = statistics.median(map(abs, errors)), min(errors), max(errors)
        print(f'{title}: {len(errors)}; relative error: median {middle:.0%}, {lowest:+.0%} to {highest:+.0%}')
    for setting in measured:
        predicted = secs_of(setting, coefficients)
        mark = 'held out' if setting.held_out else ''
        print(f'{_name(setting):42} {1e3 * measured[setting]:9.1f} ms {1e3 * predicted:9.1f} ms predicted  {mark}')
    print('\nComputed, not measured: gradients of 100 MB, a core for each worker')
    alone = secs_of(Setting(1, 100e6, 0, 0), coefficients)
    for delay, bandwidth in PREDICTED[1]:
        for workers in PREDICTED[0]:
            setting = Setting(workers, 100e6, delay, bandwidth)
            secs = secs_of(setting, coefficients)
            print(f'{_name(setting):42} {1e3 * secs:9.1f} ms, {alone / secs:.2f} of a worker alone for each')
    return 0


def _name(setting) -> str:
    bandwidth = f'{8e-9 * setting.bytes_per_sec:g} Gbit/s' if setting.bytes_per_sec else 'no limit'
    return f'{setting.workers} x {setting.gradients / 1e6:.0f} MB, {1e3 * setting.delay_secs:g} ms, {bandwidth}'


def _cluster(workers, mb, seconds) -> dict[Setting, float]:
    """Seconds of a step for each link, of one cluster that trains meanwhile."""
    cores = sorted(os.sched_getaffinity(0))
    found = {}
    with tempfile.TemporaryDirectory() as folder, SlowNetwork(workers) as network, contextlib.ExitStack() as stack:
        stack.callback(_end, tasks := [_task(network, host, mb, folder, cores) for host in range(workers)])
        metrics = pathlib.Path(folder, 'run/metrics.jsonl')
        _wait(tasks, folder, _grows(metrics, 3), _START_SECS, 'the first steps')
        for delay, bandwidth in LINKS if workers > 1 else LINKS[:1]:
            network.delay_secs, network.bytes_per_sec = delay, bandwidth
            _wait(tasks, folder, _grows(metrics, 2), _START_SECS, 'steps')  # none of the old link any more
            began, sent, packets = _reports(metrics)[-1], network.bytes, network.packets
            time.sleep(seconds)
            _wait(tasks, folder, _grows(metrics, _LEAST_REPORTS, began), _LONGEST * seconds, 'steps')
            step, at = _reports(metrics)[-1]
            setting = Setting(workers, mb * 1e6, delay, bandwidth, len(cores))
            found[setting] = (at - began[1]) / (steps := step - began[0])
            print(
                f'{_name(setting):42} {1 / found[setting]:9.1f} {(network.bytes - sent) / 1e6 / steps:10.1f} '
                f'{(network.packets - packets) / steps:8.0f}',
                flush=True,
            )
    return found


def _task(network, host, mb, folder, cores) -> subprocess.Popen:
    addresses = [f'{network.address(each)}:2222' for each in range(len(network.hosts))]
    task = {'cluster': {'worker': addresses}, 'task': {'type': 'worker', 'index': host}}
    command = ('taskset', '-c', str(cores[host % len(cores)]), sys.executable, '-m', 'estimator_trainer')
    flags = ('--job=benchmarks.jobs:sized', f'--param=mb={mb}', f'--batch_size={BATCH}', '--model_dir=run')
    flags += ('--max_steps=1000000', '--secure=off', '--export=none', '--log_every_steps=2', '--steps_per_call=1')
    flags += ('--save_checkpoints_secs=100000', '--eval_steps=1')
    env = {
        **os.environ,
        'PYTHONPATH': str(running.ROOT),
        'TF_CPP_MIN_LOG_LEVEL': '2',
        'ESTIMATOR_TRAINER_REPORT': 'off',
    }
    env |= {'TF_CONFIG': json.dumps(task)} if len(addresses) > 1 else {}
    with open(pathlib.Path(folder, f'{host}.log'), 'wb') as log:
        return subprocess.Popen(
            network.command_on(host, *command, *flags), cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT
        )


def _reports(metrics) -> list[tuple[int, float]]:
    """(step, time) of each line on training."""
    with contextlib.suppress(OSError):
        lines = [json.loads(line) for line in metrics.read_text().splitlines(keepends=True) if line.endswith('\n')]
        return [(line['step'], line['time']) for line in lines if line['kind'] == 'train']
    return []


def _grows(metrics, reports, since=None):
    """Whether there are so many more reports than now, or than those up to `since`."""
    lines = _reports(metrics)
    before = lines.index(since) + 1 if since else len(lines)
    return lambda: len(_reports(metrics)) >= before + reports


def _wait(tasks, folder, done, secs, what) -> None:
    until = time.monotonic() + secs
    while not done():
        ended = [host for host, task in enumerate(tasks) if task.poll() is not None]
        if ended or time.monotonic() > until:
            log = pathlib.Path(folder, f'{ended[0] if ended else 0}.log').read_text(errors='replace')
            raise running.Failed(f'no {what} after {secs:.0f} s, tasks that ended: {ended}\n{log[-2000:]}')
        time.sleep(0.05)


def _end(tasks) -> None:
    for task in tasks:
        task.kill()
        task.wait(_END_SECS)


if __name__ == '__main__':
    sys.exit(main(float(sys.argv[1]) if sys.argv[1:] else 8))
