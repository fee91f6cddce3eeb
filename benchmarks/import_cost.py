"""What `import estimator_trainer.compat` adds to `import tensorflow`: both, interleaved, side by side.

    python benchmarks/import_cost.py [rounds]

prints the best wall-clock time and the median of CPU time, which a busy machine disturbs least. It exits with 0 if
both are within 5 % of bare TensorFlow's, and the CPU time within 5 % of that with the same Keras. TensorFlow 2.16
and later import Keras 3 by themselves, and with compat Keras 2, which is quicker. So bare TensorFlow is measured
with either: the layer's own cost is the difference to the one with Keras 2.
"""

import os
import pathlib
import statistics
import subprocess
import sys

_ROOT = str(pathlib.Path(__file__).resolve().parents[1])
sys.path.insert(0, _ROOT)

from estimator_trainer import compat  # noqa: E402

_TIMED = (
    'import time; wall, cpu = time.perf_counter(), time.process_time(); {}; '
    'print(time.perf_counter() - wall, time.process_time() - cpu)'
)


def main(rounds: int) -> int:
    legacy = {} if compat.has_estimators() else {'TF_USE_LEGACY_KERAS': '1'}
    cases = (
        ('import tensorflow', 'import tensorflow', {}),
        ('import tensorflow, with Keras 2', 'import tensorflow', legacy),
        ('import estimator_trainer.compat, tensorflow', 'import estimator_trainer.compat, tensorflow', {}),
    )
    times = [[] for _ in cases]
    for turn in range(rounds + 1):
        for (_, statement, settings), found in zip(cases, times):
            took = _run(statement, settings)
            if turn:  # the first reads the disk
                found.append(took)
    figures = [(min(wall for wall, _ in found), statistics.median(cpu for _, cpu in found)) for found in times]
    for (name, _, _), (wall, cpu) in zip(cases, figures):
        print(f'{name:44} best {wall:.3f} s, CPU {cpu:.3f} s ({rounds} rounds)')
    bare, same_keras, ours = figures
    ratios = [[mine / other for mine, other in zip(ours, others)] for others in (bare, same_keras)]
    for name, (wall, cpu) in zip(('bare', 'with the same Keras'), ratios):
        print(f'ratio to TensorFlow {name}: best {wall:.3f}, CPU {cpu:.3f}')
    return 0 if max(*ratios[0], ratios[1][1]) < 1.05 else 1


def _run(statement, settings) -> tuple:
    env = {name: value for name, value in os.environ.items() if name != 'TF_USE_LEGACY_KERAS'}
    env.update(settings, PYTHONPATH=_ROOT, TF_CPP_MIN_LOG_LEVEL='3')
    done = subprocess.run(
        [sys.executable, '-c', _TIMED.format(statement)],
        env=env,
        timeout=120,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


if __name__ == '__main__':
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 9))
