"""What a sweep is: everything that decides its trials, in plan.json of its folder. A restart has to say the same."""

import dataclasses
import os

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names, protocol

NAME = 'plan.json'
_LATER = (file_names.STUDY, file_names.SWEEP, 'sweep.html')  # what a sweep writes after it
_FREE = (
    *('model_dir', 'progress', 'report', 'track', 'metrics_port', 'dry_run'),
    *('log_every_steps', 'save_summary_steps', 'allow_config_change'),
    *('profile_steps', 'profile_tasks', 'scratch_dir', 'max_unpushed_secs'),
    'data_cache_dir',
)


@dataclasses.dataclass(frozen=True)
class SweepPlan:
    """Attributes:
    param_space: as the flags say it.
    trainer: the flags of the trainer that may make a difference, name -> value.
    """

    metric: str
    mode: str
    seed: int
    prune_after: int
    param_space: tuple[str, ...]
    trainer: dict

    @property
    def maximizes(self) -> bool:
        return self.mode == 'max'

    def better(self, value: float, other: float) -> bool:
        return value > other if self.maximizes else value < other


def trainer_flags(config) -> dict:
    """What a SweepPlan keeps of a TrainerConfig."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(config).items()
        if name not in _FREE
    }


def differences(old: dict, new: dict) -> list[tuple]:
    """(flag, value there, value now) for each flag in which two plans, as JSON has them, differ."""
    differing = []
    for name in new:
        was, now = old.get(name), new[name]
        if name == 'trainer':
            was = was if isinstance(was, dict) else {}
            was = {key: _default(key) for key in now} | was  # of flags that an earlier version did not have
            differing += [(key, was[key], now[key]) for key in now if was[key] != now[key]]
        elif was != now:
            differing.append((name, was, now))
    return differing


def _default(flag: str):
    value = getattr(TrainerConfig, flag, None)
    return list(value) if isinstance(value, tuple) else value


def keep(plan: SweepPlan, folder: str) -> None:
    """Writes the plan of a new sweep, or holds it against the one in the folder.

    Raises:
        UsageError: the folder holds another sweep, or something else; every difference is shown.
    """
    path = os.path.join(folder, NAME)
    new = {**dataclasses.asdict(plan), 'param_space': list(plan.param_space)}
    if not os.path.exists(path):
        if os.path.exists(os.path.join(folder, file_names.CONFIG)):
            raise UsageError(f'--model_dir={folder}: holds a run of the trainer; name another folder for the sweep.')
        for name in _LATER:
            if os.path.lexists(os.path.join(folder, name)):
                raise UsageError(
                    f'--model_dir={folder}: its {name} is not of a sweep with a {NAME}; move it away, or name another '
                    'folder.'
                )
        protocol.remove_unfinished(path)
        protocol.write_json(path, new)
        return
    old = protocol.read_json(path)
    if not old:
        raise UsageError(f'--model_dir={folder}: its {NAME} cannot be read; mend it, or name another folder.')
    different = differences(old, new)
    if different:
        raise UsageError(
            f'--model_dir={folder}: holds a sweep with other flags:\n'
            + '\n'.join(f'  {name}: {was!r} there, {now!r} now' for name, was, now in different)
            + '\nGive them as they were, or another --model_dir.'
        )
