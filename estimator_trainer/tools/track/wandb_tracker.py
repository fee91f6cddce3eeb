"""Weights & Biases: a run in a project. WANDB_MODE=offline keeps it in the model_dir, for `wandb sync`."""

import os
import re
from collections.abc import Sequence

import wandb

from estimator_trainer.tools.track.tracker import (
    FINISHED,
    RUNNING,
    MetricsLine,
    TrackedRun,
    TrackerUnavailable,
    words_of,
)

_INIT_SECS = 30


class WandbTracker:
    """The library sends in the background, so that only the end of a session says that everything has arrived."""

    confirms = False

    def begin(self, run: TrackedRun, entry: str) -> str:
        settings = wandb.Settings(
            init_timeout=_INIT_SECS,
            reinit='create_new',  # one that went wrong before is left alone
            console='off',
            silent=True,
            disable_git=True,
            x_disable_stats=True,  # they would be of the process that sends
        )
        try:
            self._run = wandb.init(
                project=os.environ.get('WANDB_PROJECT') or re.sub(r'[/\\#?%:]', '_', run.group),
                id=entry or run.key,
                resume='allow',
                name=run.name,
                dir=run.scratch,
                settings=settings,
            )
            self._run.config.update({**run.params, 'run': run.tags}, allow_val_change=True)
            for kind in ('train', 'eval'):  # a run that was resumed takes steps twice; W&B's own step cannot go back
                self._run.define_metric(f'{kind}/*', step_metric=f'{kind}/step')
        except Exception as error:
            raise TrackerUnavailable(words_of(error)) from error
        self._name = run.name
        return self._run.id

    def lines(self, lines: Sequence[MetricsLine]) -> None:
        try:
            for line in lines:
                self._run.log({**line.values, f'{line.kind}/step': line.step, f'{line.kind}/time': line.time})
        except Exception as error:
            raise TrackerUnavailable(words_of(error)) from error

    def export(self, folder: str, name: str) -> None:
        kind = name.split('/')[-2]
        called = re.sub(r'[^\w\-.]', '_', f'{self._name}-{kind}')
        try:
            artifact = wandb.Artifact(called, 'model', metadata={'folder': name})
            artifact.add_dir(folder)
            self._run.log_artifact(artifact)
        except Exception as error:
            raise TrackerUnavailable(words_of(error)) from error

    def end(self, status: str, at: float) -> None:
        try:
            self._run.finish(exit_code=0 if status in (FINISHED, RUNNING) else 1)
        except Exception as error:
            raise TrackerUnavailable(words_of(error)) from error
