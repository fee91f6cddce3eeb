"""Two workers: seconds from the command to the first step, and from the death of one worker to the next new step."""

import contextlib
import json
import os
import pathlib
import signal
import sys
import time

_KILL_AT, _STEPS = 30, 400
_LAST_WORD_SECS = 1  # in which the chief may still report what it had done; no new start is as fast
_COMMAND = (
    *(sys.executable, '-m', 'estimator_trainer', 'cluster', '--workers=2', '--noevaluator', '--'),
    *('--job=benchmarks.jobs:cnn', '--model_dir=run', '--batch_size=64', '--export=none', '--eval_steps=1'),
    *('--save_checkpoints_steps=20', '--log_every_steps=1'),
)
COLD = (*_COMMAND, '--max_steps=1')
KILLED = (*_COMMAND, f'--max_steps={_STEPS}')


def watch_start(pid, folder, found) -> None:
    """Adds `seconds_to_step`, from the first call of this function to the first step."""
    began = found.setdefault('began', time.time())
    reports = _reports(folder)
    if reports:
        found.setdefault('seconds_to_step', reports[0]['time'] - began)


def watch_restart(pid, folder, found) -> None:
    """Kills worker:1 in a step, and adds `seconds_to_step`, from then to the first step that had not been made."""
    reports = _reports(folder)
    if not reports:
        return
    if 'killed' not in found:
        if reports[-1]['step'] >= _KILL_AT:
            os.kill(_worker(folder), signal.SIGKILL)
            found['killed'] = time.time()
        return
    restarted = found['killed'] + _LAST_WORD_SECS
    done = max(line['step'] for line in reports if line['time'] <= restarted)
    later = [line['time'] for line in reports if line['step'] > done and line['time'] > restarted]
    if later:
        found.setdefault('seconds_to_step', later[0] - found['killed'])


def read(folder) -> dict:
    return {}


def _reports(folder) -> list[dict]:
    try:
        text = pathlib.Path(folder, 'run/metrics.jsonl').read_text(encoding='utf-8')
    except OSError:
        return []
    lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith('\n')]
    return [line for line in lines if line['kind'] == 'train']


def _worker(folder) -> int:
    """The process of worker:1: the trainer that has it in its TF_CONFIG, and this folder."""
    for entry in pathlib.Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError, ValueError, KeyError):
            if os.readlink(entry / 'cwd') != os.path.realpath(folder):
                continue
            environ = dict(part.partition('=')[::2] for part in (entry / 'environ').read_text().split('\0'))
            if json.loads(environ['TF_CONFIG'])['task'] == {'type': 'worker', 'index': 1}:
                return int(entry.name)
    raise ProcessLookupError('worker:1 is not running')
