"""Runs the acceptance programs, as users would, and reads what they found.

Each program takes model_dir and a file to write its final numbers to. None imports estimator_trainer.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(__file__).resolve().parent / 'programs'
sys.path.insert(0, str(REPOSITORY))

from estimator_trainer.supervisor.processes import ports  # noqa: E402  (standard library only)

ALONE = ('wide_and_deep', 'v1_style', 'keras_model', 'export_and_warm_start', 'heads_and_hooks', 'mirrored')
CLUSTERS = {'parameter_servers': ('chief', 'ps', 'evaluator'), 'workers': ('worker', 'worker', 'evaluator')}
NAMES = (*ALONE, *CLUSTERS)


class Python:
    """An interpreter with TensorFlow, and whether compat brings its Estimators."""

    def __init__(self, path, compat):
        self.path, self.compat = str(path), compat

    def command(self, program, *arguments) -> list:
        run = ['-m', 'estimator_trainer.compat', 'run'] if self.compat else []
        return [self.path, *run, str(PROGRAMS / f'{program}.py'), *map(str, arguments)]

    def environment(self, **settings) -> dict:
        env = {
            name: value
            for name, value in os.environ.items()
            if name not in ('TF_CONFIG', 'TF_USE_LEGACY_KERAS', 'PYTHONPATH')
        }
        # The arithmetic of oneDNN is not the same in all versions of TensorFlow.
        env.update(TF_ENABLE_ONEDNN_OPTS='0', TF_CPP_MIN_LOG_LEVEL='2', CUDA_VISIBLE_DEVICES='-1')
        if self.compat:
            env['PYTHONPATH'] = str(REPOSITORY)
        return {**env, **settings}


def results(python, name, folder, timeout=400) -> dict:
    """The numbers of one program, run in `folder`.

    Raises:
        RuntimeError: it failed, or did not end in time; its output is in the message.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / 'result.json'
    if name in ALONE:
        _finish([_start(python, folder, 'task', [name, folder / 'model', out])], timeout)
        return json.loads(out.read_text())
    roles = CLUSTERS[name]
    kind = 'workers' if name == 'workers' else 'ps'
    with ports.claim(len(roles)) as claimed, contextlib.ExitStack() as stack:
        cluster, tasks = {}, []
        for role, port in zip(roles, claimed.ports):
            index = len(cluster.setdefault(role, []))
            cluster[role].append(f'localhost:{port}')
            tasks.append((role, index))
        if kind == 'ps':
            del cluster['evaluator']  # upstream wants it so without a strategy
        started = {}
        for role, index in tasks:
            config = json.dumps({'cluster': cluster, 'task': {'type': role, 'index': index}})
            started[role, index] = _start(
                python, folder, f'{role}{index}', ['cluster', kind, folder / 'model', out], TF_CONFIG=config
            )
            stack.callback(_kill, started[role, index])
        _finish([task for (role, _), task in started.items() if role != 'ps'], timeout)
    return json.loads(out.read_text())


def continued(first, second, folder, steps=10) -> dict:
    """A model_dir that `first` begins, `second` continues, and `first` continues again; numbers of all."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for turn, python in enumerate((first, second, first), 1):
        out = folder / f'result{turn}.json'
        _finish([_start(python, folder, f'turn{turn}', ['continued', folder / 'model', out, turn * steps])], 400)
        found.update((f'{turn}/{key}', value) for key, value in json.loads(out.read_text()).items())
    return found


def _start(python, folder, name, arguments, **settings):
    log = open(folder / f'{name}.log', 'w')
    process = subprocess.Popen(
        python.command(*arguments),
        env=python.environment(**settings),
        cwd=folder,
        stdout=log,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    log.close()
    process.log = folder / f'{name}.log'
    return process


def _finish(processes, timeout) -> None:
    deadline = time.monotonic() + timeout
    try:
        for process in processes:
            if process.wait(max(0.1, deadline - time.monotonic())):
                raise RuntimeError(f'exit code {process.returncode}: {_output(process)}')
    except subprocess.TimeoutExpired:
        raise RuntimeError(f'not done after {timeout} s: ' + '\n'.join(map(_output, processes))) from None
    finally:
        for process in processes:
            _kill(process)


def _kill(process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _output(process) -> str:
    return f'{" ".join(process.args)}\n{process.log.read_text(errors="replace")[-4000:]}'


def worst_difference(expected, found) -> float:
    """The largest relative difference; infinite where the names differ."""
    if expected.keys() != found.keys():
        return float('inf')
    return max(
        abs(expected[name] - found[name]) / max(abs(expected[name]), abs(found[name]), 1e-12) for name in expected
    )


def remove(folder) -> None:
    shutil.rmtree(folder, ignore_errors=True)
