"""A job whose tasks run on other machines: gang after gang, until there is no use in going on."""

import contextlib
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import tf_config
from estimator_trainer import exit_codes
from estimator_trainer.run_dir import protocol
from estimator_trainer.storage.mirror import run_folder
from estimator_trainer.submit.description import TRAINER, Description
from estimator_trainer.submit.remote import POLL_SECS, RemoteLauncher, RemoteTrainingFollower, TaskHost
from estimator_trainer.supervisor.gang import Gang
from estimator_trainer.supervisor.policy import restarts
from estimator_trainer.supervisor.policy.causes import GangOutcome, restarts_alone
from estimator_trainer.supervisor.policy.task_commands import TaskCommand
from estimator_trainer.supervisor.supervisor import CannotGoOn, Supervisor
from estimator_trainer.this_process.console import Console
from estimator_trainer.this_process.signal_pipe import Signals

ROOM_SECS = 600  # for nodes to be added
AGAIN_SECS = 1  # after a failure to start what runs the tasks


class HostPool(Protocol):
    """Where the hosts of gangs come from."""

    def has_room(self) -> bool:
        """Whether there is room for all tasks at once. Never waits."""

    def hosts(self, names: Sequence[str]) -> contextlib.AbstractContextManager[Sequence[TaskHost]]:
        """Makes a host for each task within a bounded time. At the end they are gone, with all that runs there.

        Raises HostLost.
        """


def commands(description: Description, addresses: Mapping[str, str], environ: Mapping[str, str]) -> list[TaskCommand]:
    """One TaskCommand for each task, the chief's first.

    Args:
        addresses: 'host:port' of each task, by its name.
        environ: what all tasks are given.

    Raises:
        UsageError: such roles make up no cluster.
    """
    roles, cluster = dict(description.roles), description.cluster(addresses)
    scratch = (f'--scratch_dir={scratch_dir(description)}',) if description.in_store else ()
    python, *words = description.command(*scratch, '--cluster_from=tf_config')
    made = []
    for task in cluster.tasks:
        place = {'TF_CONFIG': tf_config.render(cluster, task)} if len(cluster) > 1 else {}
        made.append(
            TaskCommand(
                name=str(task),
                # Before the flagfile and the job's own flags, which therefore win.
                argv=(python, *TRAINER, f'--intra_op_threads={roles[task.role].cores}', *words[len(TRAINER) :]),
                env={**environ, **place},
                trains=task.role in ('chief', 'worker'),
                alone=restarts_alone(str(task), description.asynchronous),
                address=cluster.address(task),
            )
        )
    return made


def scratch_dir(description: Description) -> str:
    """The scratch folder, on each machine, of a run in a store. If there are several tasks, each has a folder in it."""
    return os.path.join(description.scratch_dir or '', description.name)


def seen_dir(description: Description, chief: str) -> str:
    """The folder of `training.json` on the chief's machine."""
    if not description.in_store:
        return description.model_dir
    own = chief.replace(':', '-') if description.num_tasks > 1 else ''
    return run_folder(os.path.join(scratch_dir(description), own))


class RemoteSupervisor(Supervisor[Mapping[str, TaskHost]]):
    """Runs the job of `description` on hosts of `cluster`. Make one for each run."""

    def __init__(self, description: Description, cluster: HostPool, console: Console, rng: random.Random):
        description.check_roles()
        stall_secs = restarts.stall_bound(description.step_timeout_secs)
        limits = restarts.Limits(grace_secs=description.grace_secs, stall_timeout=stall_secs)
        super().__init__(restarts.Rules(description.max_restarts), limits, description.asynchronous, console, rng)
        self._description, self._cluster, self._console = description, cluster, console
        self.workers = description.num_tasks

    def run(self) -> int:
        """Runs the job, and returns the exit code.

        It is 0, 128 + N after signal N to us, NO_PEER if there is no room, or the code of the cause.
        """
        with Signals() as signals:
            return self._run_gangs(signals)[0]

    def _make_gang(self, place: Mapping[str, TaskHost], generation: str) -> Gang:
        description = self._description
        environ = {
            **dict(description.environment),
            'PYTHONUNBUFFERED': '1',
            protocol.GENERATION: generation,
            protocol.STARTED: f'{self._began_at:.3f}',
        }
        tasks = commands(description, {name: host.address for name, host in place.items()}, environ)
        self._say('start: ' + ', '.join(f'{task.name} {task.address}' for task in tasks))
        chief = tasks[0].name
        stall_secs, now = self._limits.stall_timeout, time.monotonic()
        self._follower = RemoteTrainingFollower(
            place[chief], seen_dir(description, chief), generation, stall_secs, now, self.checkpoint
        )
        launcher = RemoteLauncher(place, description.working_dir)
        return Gang(tasks, launcher, self._limits, self._console, self._budgets, self._follower)

    def _gang_ended(self, gang: Gang, outcome: GangOutcome) -> None:
        self.checkpoint = self._follower.saved
        if not outcome.signum and outcome.end.cause is None:
            self._say(f'{outcome.end.kind.value}, after {len(self._decisions)} restart(s)')

    @contextlib.contextmanager
    def _place(self, signals: Signals) -> Iterator[Mapping[str, TaskHost]]:
        """Waits for room and takes it. Room may prove to be on a node that has just been lost."""
        names, said = self._description.tasks(), ''
        what, deadline = f'room for all {len(names)} task(s) at once', time.monotonic() + ROOM_SECS
        with contextlib.ExitStack() as stack:
            while True:
                problem = ''
                if self._cluster.has_room():
                    try:
                        hosts = stack.enter_context(self._cluster.hosts(names))
                        break
                    except OSError as error:  # HostLost, or no port
                        problem = f'no task can be started: {error}; '
                if time.monotonic() > deadline:
                    raise CannotGoOn(f'{problem}no {what} within {ROOM_SECS} s', exit_codes.NO_PEER)
                if problem or not said:
                    said = f'{problem}waiting for {what}, at most {ROOM_SECS} s'
                    self._say(said)
                self._wait(AGAIN_SECS if problem else POLL_SECS, signals)
            yield dict(zip(names, hosts, strict=True))
