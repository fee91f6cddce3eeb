"""A job whose tasks run on other machines: gang after gang, until there is no use in going on."""

import contextlib
import os
import random
import secrets
import selectors
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import tf_config
from estimator_trainer import exit_codes
from estimator_trainer.run_dir import protocol
from estimator_trainer.storage.mirror import run_folder
from estimator_trainer.submit import places
from estimator_trainer.submit.description import TRAINER, Description
from estimator_trainer.submit.remote import POLL_SECS, Host, RemoteLauncher, RemoteWatch
from estimator_trainer.supervisor import messages, policy, restarts
from estimator_trainer.supervisor.console import Console
from estimator_trainer.supervisor.policy import Cause, Why
from estimator_trainer.supervisor.signals import Signals
from estimator_trainer.supervisor.supervisor import Limits, Supervisor
from estimator_trainer.supervisor.task_commands import Command, restarts_alone

ROOM_SECS = 600  # for nodes to be added
AGAIN_SECS = 1  # after a failure to start what runs the tasks


class Cluster(Protocol):
    """Where the hosts of gangs come from."""

    def has_room(self) -> bool:
        """Whether there is, for all tasks at once. Never waits."""

    def hosts(self, names: Sequence[str]) -> contextlib.AbstractContextManager[Sequence[Host]]:
        """New hosts, one for each task; at the end they are gone, with all that runs there.

        Raises HostLost. Bounded.
        """


def commands(description: Description, addresses: Mapping[str, str], environ: Mapping[str, str]) -> list[Command]:
    """One Command for each task, the chief's first.

    Args:
        addresses: 'host:port' of each task, by its name.
        environ: what all tasks are given.

    Raises:
        UsageError: such roles make up no cluster.
    """
    roles, cluster = dict(description.roles), places.cluster(description, addresses)
    scratch = (f'--scratch_dir={scratch_dir(description)}',) if description.in_store else ()
    python, *words = description.command(*scratch, '--cluster_from=tf_config')
    made = []
    for task in cluster.tasks:
        place = {'TF_CONFIG': tf_config.render(cluster, task)} if len(cluster) > 1 else {}
        made.append(
            Command(
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
    """Of a run in a store, on each machine. If there are several tasks, each has a folder in it."""
    return os.path.join(description.scratch_dir or '', description.name)


def seen_dir(description: Description, chief: str) -> str:
    """The folder in which the chief's machine has `training.json`."""
    if not description.in_store:
        return description.model_dir
    own = chief.replace(':', '-') if description.num_tasks > 1 else ''
    return run_folder(os.path.join(scratch_dir(description), own))


class Run:
    """Runs the job of `description`. Make one for each run."""

    def __init__(self, description: Description, cluster: Cluster, console: Console, rng: random.Random):
        places.check(description)
        self._description, self._cluster, self._console = description, cluster, console
        self._rules, self._rng = restarts.Rules(description.max_restarts), rng
        self._alone = restarts.Alone(self._rules, rng)
        self._limits = Limits(grace_secs=description.grace_secs)
        self._began = time.time()
        self._failures: list[restarts.Failure] = []
        self._saved = 0  # the step of the last checkpoint

    def run(self) -> int:
        """The exit code: 0, 128 + N after signal N to us, NO_PEER where there is no room, or the cause's."""
        with Signals() as signals:
            while True:
                try:
                    with contextlib.ExitStack() as stack:
                        code, decision = self._attempt(self._hosts(stack, signals), signals)
                    if decision is None or not decision.restart:
                        return code
                    self._wait(signals, decision.delay)
                except _Stopped as stopped:
                    return 128 + stopped.signum
                except _NoRoom as error:
                    self._console.say(str(error))
                    return exit_codes.NO_PEER

    def _attempt(self, hosts: Mapping[str, Host], signals: Signals) -> tuple[int, restarts.Decision | None]:
        """Runs one gang. The exit code, if this is the end, and what follows a failure."""
        description, number = self._description, len(self._failures) + 1
        generation = f'{number}-{secrets.token_hex(4)}'
        gang = commands(
            description,
            {name: host.address for name, host in hosts.items()},
            {
                **dict(description.environment),
                'PYTHONUNBUFFERED': '1',
                protocol.GENERATION: generation,
                protocol.STARTED: f'{self._began:.3f}',
            },
        )
        self._console.say('start: ' + ', '.join(f'{task.name} {task.address}' for task in gang))
        watch = RemoteWatch(
            hosts[gang[0].name],
            seen_dir(description, gang[0].name),
            generation,
            self._limits.stall_timeout,
            time.monotonic(),
            self._saved,
        )
        launcher = RemoteLauncher(hosts, description.working_dir)
        outcome = Supervisor(launcher, self._limits, self._console, self._alone, watch).run(gang, signals)
        self._saved = watch.saved
        if outcome.signum:
            return policy.code_of_stopped(outcome, watch.training.state if watch.training else None), None
        if outcome.stop.why not in (Why.FAILED, Why.STALLED):
            self._console.say(f'{outcome.stop.why.value}, after {number - 1} restart(s)')
            return outcome.stop.exit_code, None
        return self._decide(outcome.stop.cause, watch.training and watch.training.checkpoint_step)

    def _decide(self, cause: Cause, checkpoint: int | None) -> tuple[int, restarts.Decision]:
        error = cause.ended.error if cause.ended else None
        self._failures.append(
            restarts.Failure(
                at=time.monotonic(),
                code=cause.code,
                checkpoint=self._saved,
                task=cause.name,
                step=error.step if error else None,
                workers=self._description.num_tasks,
                never_started=bool(cause.ended and cause.ended.never_started),
                alone=restarts_alone(cause.name, self._description.asynchronous),
            )
        )
        decision = restarts.decide(self._failures, self._rules, self._rng)
        say = (
            messages.restart(decision, self._rules.max_restarts, checkpoint, cause)
            if decision.restart
            else (messages.no_restart(decision, self._rules, cause))
        )
        self._console.say(say)
        return decision.exit_code, decision

    def _hosts(self, stack: contextlib.ExitStack, signals: Signals) -> Mapping[str, Host]:
        """Waits for room and takes it. Room may prove to be on a node that has just been lost."""
        names, said = places.names(self._description), ''
        what, deadline = f'room for all {len(names)} task(s) at once', time.monotonic() + ROOM_SECS
        while True:
            problem = ''
            if self._cluster.has_room():
                try:
                    return dict(zip(names, stack.enter_context(self._cluster.hosts(names)), strict=True))
                except OSError as error:  # HostLost, or no port
                    problem = f'no task can be started: {error}; '
            if time.monotonic() > deadline:
                raise _NoRoom(f'{problem}no {what} within {ROOM_SECS} s')
            if problem or not said:
                said = f'{problem}waiting for {what}, at most {ROOM_SECS} s'
                self._console.say(said)
            self._wait(signals, AGAIN_SECS if problem else POLL_SECS)

    @staticmethod
    def _wait(signals: Signals, secs: float) -> None:
        """Raises _Stopped as soon as there was a signal."""
        until = time.monotonic() + secs
        with selectors.DefaultSelector() as selector:
            selector.register(signals, selectors.EVENT_READ)
            while True:
                received = signals.take()
                if received:
                    raise _Stopped(received[0])
                left = until - time.monotonic()
                if left <= 0:
                    return
                selector.select(left)


class _NoRoom(Exception):
    """Not all tasks can run at once."""


class _Stopped(Exception):
    """A signal has told us to stop."""

    def __init__(self, signum):
        super().__init__(signum)
        self.signum = signum
