"""Profiles of real runs: of two workers by a flag, and of a process by signals."""

import gzip
import json
import pathlib
import signal
import sys
import threading

import launch
import pytest

BOUND_SECS = 300


def operations(model_dir, session, task) -> set:
    """What a trace names."""
    path = pathlib.Path(model_dir, 'plugins', 'profile', session, f'{task}.trace.json.gz')
    with gzip.open(path, 'rt') as file:
        return {event['name'] for event in json.load(file)['traceEvents']}


@pytest.mark.slow
def test_two_workers_profile_the_same_steps(tmp_path):
    flags = ('--max_steps=40', '--profile_steps=20,30', '--profile_tasks=all', '--export=none', '--steps_per_call=100')
    done = launch.cluster(['--workers=2', '--noevaluator'], *flags, f'--model_dir={tmp_path}')
    for task in ('worker:0', 'worker:1'):
        said = [line for line in done.output.splitlines() if line.startswith(f'[{task}]')]
        (at,) = [number for number, line in enumerate(said) if 'profile of steps 21 to 30' in line]
        assert 'waiting for other tasks' in said[at] and 'computing, on' in said[at + 1], done.output
        assert any('conv' in name for name in operations(tmp_path, 'steps-21-30', task.replace(':', '-')))
        assert any('conv' in name for name in operations(tmp_path, 'steps-21-30', task.replace(':', '-')))


@pytest.mark.slow
def test_a_signal_profiles_the_next_steps_and_ends_nothing(tmp_path):
    command = [sys.executable, '-m', 'estimator_trainer', '--loop=custom_loop', '--export=none']
    flags = ['--max_steps=1000000', '--save_checkpoints_secs=3600', f'--model_dir={tmp_path}']
    with launch.start([*command, *flags]) as process:
        output, bound = [], threading.Timer(BOUND_SECS, process.kill)
        bound.start()

        def read_until(text):
            for line in process.stdout:
                output.append(line)
                if text in line:
                    return line
            raise AssertionError(''.join(output))

        read_until('trains from step 0')
        process.send_signal(signal.SIGUSR2)
        read_until('ui.perfetto.dev')
        process.send_signal(signal.SIGUSR2)
        again = read_until('profile of steps')
        first, last = (int(word.rstrip(':')) for word in again.split()[4:7:2])
        assert last - first == 19
        read_until('ui.perfetto.dev')
        process.send_signal(signal.SIGTERM)
        ended = launch.finished(process, timeout=BOUND_SECS)
        bound.cancel()
    assert ended.code == 143, ended.output
    assert any('conv' in name for name in operations(tmp_path, f'steps-{first}-{last}', 'chief'))
