"""How a sweep is, in one line."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import locks, protocol
from estimator_trainer.tools.report import sweeps

_STATES = ('done', 'pruned', 'failed', 'running')
_IS = {
    'done': ('is done', exit_codes.OK),
    'stopped': ('was stopped; the same command goes on', exit_codes.TERMINATED),
    'failed': ('has failed', exit_codes.FAILED),
}


class SweepStatus(NamedTuple):
    """What is known of a sweep at one moment. `told`: sweep.json, {} before it is written."""

    told: dict
    alive: bool


def read(folder: str) -> SweepStatus | None:
    """None where the folder is not that of a sweep."""
    root = os.path.expanduser(folder)
    if not os.path.exists(os.path.join(root, 'study.db')):
        return None
    told = protocol.read_json(os.path.join(root, 'sweep.json'))
    return SweepStatus(told, locks.is_held(os.path.join(root, '.sweep.lock')))


def exit_code(sweep: SweepStatus, alive: int, unknown: int) -> int:
    if sweep.alive:
        return alive
    return _IS[sweep.told['state']][1] if sweep.told.get('state') in _IS else unknown


def line(sweep: SweepStatus, name: str) -> str:
    """The line, such as

    runs/sweep is done: 12 trials, 8 done, 4 pruned. The best is trial 12: accuracy 0.9120 at step 375, …
    """
    how = 'runs its trials' if sweep.alive else _IS.get(sweep.told.get('state', ''), ('',))[0]
    how = how or 'is gone: it was killed; the same command goes on'
    return f'{name} {how}{_trials(sweep.told)}. {sweeps.best_trial(sweep.told)}'.rstrip()


def _trials(told: Mapping) -> str:
    trials = [each for each in told.get('trials') or () if isinstance(each, dict)]
    counts = [(sum(each.get('state') == state for each in trials), state) for state in _STATES]
    words = [f'{count} {state}' for count, state in counts if count]
    return f': {len(trials)} trials, {", ".join(words)}' if trials else ''
