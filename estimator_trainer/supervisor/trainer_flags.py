"""What the supervisor reads of the trainer's flags. Only the trainer judges them, together with its job."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from estimator_trainer import flag_words, flags
from estimator_trainer.config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.storage import urls

_DATA = ('train_files', 'eval_files', 'data_dir')


class TrainerFlags(NamedTuple):
    model_dir: str | None = None  # None: none is given, or it is not a folder of this machine
    batch_size: int = TrainerConfig.batch_size  # of one replica
    grace_secs: int = TrainerConfig.grace_secs
    step_timeout_secs: int = TrainerConfig.step_timeout_secs
    sync_ps: bool = TrainerConfig.sync_ps
    allocator: str = TrainerConfig.allocator
    report: str = 'off'
    progress: str = TrainerConfig.progress
    track: tuple[str, ...] = ()
    profile_tasks: str = TrainerConfig.profile_tasks
    metrics_port: str = ''
    just_asks: bool = False  # --help or --dry_run
    url: str | None = None  # that --model_dir names in place of a folder
    data_in_store: str = ''  # the flag that names data in a store, if one does


def read(given: Sequence[str]) -> TrainerFlags:
    """Reads what the supervisor needs. If a flag is wrong, the defaults: the trainer will say what is wrong with it.

    Raises:
      UsageError: a flagfile cannot be read.
    """
    words = [word.text for word in flag_words.words(given)]
    if flags.wants_help(words):
        return TrainerFlags(just_asks=True)
    try:
        values = flags.parse_known(TrainerConfig, ['trainer', *given])
    except UsageError:
        return TrainerFlags()
    url = values.model_dir if urls.is_url(values.model_dir) else None
    return TrainerFlags(
        None if url else os.path.expanduser(values.model_dir) or None,
        values.batch_size,
        values.grace_secs,
        values.step_timeout_secs,
        values.sync_ps,
        values.allocator,
        values.report,
        values.progress,
        tuple(values.track),
        values.profile_tasks,
        values.metrics_port,
        values.dry_run,
        url,
        next((name for name in _DATA if urls.is_url(getattr(values, name))), ''),
    )
