"""Which process sends and follows which files, if the tasks of a run are on several machines. Pure.

| process | sends, and fetches at its start | follows |
|---|---|---|
| a run of one machine | everything | |
| chief | everything but what is the evaluator's, if there is one | eval/stop.json, eval/metrics.jsonl |
| worker | its profiles | .start.json and the checkpoint that it names, config.json |
| evaluator | eval/, export/, report.html | the newest checkpoint, training.json, config.json, metrics.jsonl |

What a process follows, another one sends; `follow.py` fetches it again and again.
"""

import dataclasses
import re
from typing import TYPE_CHECKING

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names
from estimator_trainer.storage import names

if TYPE_CHECKING:
    from estimator_trainer.training.plan import Plan

_OF_EVALUATOR = re.compile(r'(?:eval|export)/.+|report\.html')
_PROFILE = re.compile(r'plugins/profile/[^/]+/([a-z]+-\d+)\.[^/]+')


@dataclasses.dataclass(frozen=True)
class Share:
    """What is one process's of a run.

    Attributes:
        task: 'worker:1'; '' for a run of one machine.
        role: 'chief', 'worker' or 'evaluator'. A run of one machine is its own chief.
        has_evaluator: whether the cluster of this task has one.
    """

    task: str = ''
    role: str = 'chief'
    has_evaluator: bool = False

    def owns(self, name: str) -> bool:
        """Whether this process sends the file, and deletes it in the store when it is gone here."""
        profiled = _PROFILE.fullmatch(name)
        if profiled:
            return self.folder in ('', profiled[1])
        of_evaluator = bool(_OF_EVALUATOR.fullmatch(name))
        if self.role == 'evaluator':
            return of_evaluator
        return self.role == 'chief' and not (of_evaluator and self.has_evaluator)

    @property
    def folder(self) -> str:
        """Of the task, in the scratch folder; '' for a run of one machine."""
        return self.task.replace(':', '-')

    @property
    def lease(self) -> str | None:
        """The object that says who has this share. A worker needs none: nobody waits for what it sends."""
        return {'chief': names.LEASE, 'evaluator': names.EVALUATOR_LEASE}.get(self.role)

    @property
    def holder(self) -> str:
        """Who has the lease, for messages."""
        return 'an evaluator' if self.role == 'evaluator' else 'a trainer'

    @property
    def anchor(self) -> str:
        """The file that the share has if it has anything."""
        return names.LAST_EVALUATION if self.role == 'evaluator' else names.POINTER

    @property
    def lasting(self) -> tuple[str, ...]:
        """The files of the share that no run removes. If one is gone that the store has, the folder was emptied."""
        file = names.LAST_EVALUATION if self.role == 'evaluator' else file_names.CONFIG
        return (file,) if self.owns(file) else ()

    @property
    def follows(self) -> tuple[str, ...]:
        """Small files that another task sends. Those that are logs are fetched more rarely."""
        if self.role == 'chief':
            return (names.STOP, file_names.EVALUATIONS) if self.has_evaluator else ()
        return (file_names.CONFIG, file_names.METRICS) if self.role == 'evaluator' else (file_names.CONFIG,)

    @property
    def follows_checkpoint(self) -> str | None:
        """The file that names the checkpoint to fetch."""
        return {'worker': names.START, 'evaluator': names.POINTER}.get(self.role)


def of(plan: 'Plan') -> Share:
    """The share of a task that was started by itself.

    Raises:
        UsageError: a cluster that cannot work in a store.
    """
    url = plan.config.model_dir
    if plan.num_tasks == 1:
        return Share()
    if plan.cluster.ps:
        raise UsageError(
            f'--model_dir={url}: parameter servers of several machines cannot save into a store. Use '
            'run_local_cluster.sh, a folder that all tasks share, or --strategy=multi_worker_mirrored without ps tasks.'
        )
    if plan.has_evaluator and not plan.cluster.evaluator:
        raise UsageError(
            f'--model_dir={url}: {plan.name} is not listed in the cluster; list the evaluator in TF_CONFIG of every '
            'task, so that the chief leaves eval/ and export/ in the store to it.'
        )
    return Share(plan.name, plan.role, plan.has_evaluator)
