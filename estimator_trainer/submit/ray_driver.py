"""python -m estimator_trainer.submit.ray_driver JOB.yaml: runs a job on the Ray cluster that this is part of.

1. A placement group reserves what all tasks need, one bundle for each; none starts before there is room for all.
2. An actor in each bundle tells the address of its node and a free port there, and starts the trainer as a
   process with the TF_CONFIG that comes of them.
3. The local supervisor's code watches them (`remote`, `remote_supervisor`). A gang that is started again has new
   actors.

Exit code: that of a local run of a cluster.
"""

import contextlib
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.submit import description as descriptions
from estimator_trainer.submit.ray_host import TaskActor
from estimator_trainer.submit.remote import HostLost
from estimator_trainer.submit.remote_supervisor import RemoteSupervisor
from estimator_trainer.this_process.console import Console
from tf_config import inherited

START_SECS = 120  # for an actor to start and answer: Ray may have to start a process of Python first
LOST_SECS = 60  # without an answer; Ray itself takes about half of that to give up a node


class Question:
    """A method of an actor that is called again and again, one call at a time."""

    def __init__(self, ray: Any, method: Any):
        self._ray, self._method, self._call, self._since = ray, method, None, 0.0

    def ask(self, *args: object) -> Any:
        """The answer to the last call, None if it is not there yet. Never waits. Raises HostLost."""
        if self._call is None:
            self._call, self._since = self._method.remote(*args), time.monotonic()
        ready, _ = self._ray.wait([self._call], timeout=0)
        if ready:
            call, self._call = self._call, None
            return _answer(self._ray, call, 0)
        if time.monotonic() - self._since > LOST_SECS:
            raise HostLost(f'its node has not answered for {LOST_SECS} s')
        return None


class RayHost:
    """`remote.TaskHost`: an actor and the address that it gave.

    Args:
        key: the key of the run that the task is given; b'': none.
    """

    def __init__(self, ray: Any, actor: Any, address: str, key: bytes = b''):
        self.address = address
        self._key = key
        self._ray, self._actor = ray, actor
        self._end, self._training = Question(ray, actor.poll), Question(ray, actor.training)
        self._known: dict = {}

    def start(self, argv: Sequence[str], given: Mapping[str, str], folder: str | None) -> int:
        return _answer(self._ray, self._actor.start.remote(argv, given, folder, self._key), START_SECS)

    def poll(self) -> tuple[int, dict] | None:
        return self._end.ask()

    def send(self, signum: int) -> None:
        self._actor.send.remote(int(signum))

    def training(self, model_dir: str) -> dict:
        self._known = self._training.ask(model_dir) or self._known
        return self._known


class RayCluster:
    """`remote_supervisor.HostPool`: one placement group for the whole run."""

    def __init__(self, ray: Any, description: descriptions.Description):
        self._ray, self._description = ray, description
        self._bundles = [bundle(role) for _, role in description.roles for _ in range(role.count)]
        self._group = ray.util.placement_group(self._bundles, strategy='PACK', name=description.name)

    def has_room(self) -> bool:
        return self._group.wait(0)  # whole seconds only: Ray cuts the rest off

    @contextlib.contextmanager
    def hosts(self, names: Sequence[str]) -> Iterator[list[RayHost]]:
        ray = self._ray
        actors = []
        try:
            for number, (name, needs) in enumerate(zip(names, self._bundles, strict=True)):
                strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(self._group, number)
                actors.append(
                    ray.remote(TaskActor)
                    .options(
                        num_cpus=needs['CPU'],
                        num_gpus=needs.get('GPU', 0),
                        memory=needs['memory'],
                        scheduling_strategy=strategy,
                    )
                    .remote(name)
                )
            asked = [actor.port.remote() for actor in actors]
            ports = [_answer(ray, call, START_SECS) for call in asked]
            key = self._new_key(actors)
            yield [
                RayHost(ray, actor, address(node, port), key)
                for actor, node, port in zip(actors, self._nodes(), ports, strict=True)
            ]
        finally:
            for actor in actors:
                ray.kill(actor)

    def _new_key(self, actors: Sequence[Any]) -> bytes:
        """A key for each gang, by Ray's own channel, if the tasks share no folder for one; b'': none."""
        description = self._description
        if not description.in_store or len(actors) == 1:
            return b''
        call = actors[0].new_key.remote(description.python, dict(description.environment), description.working_dir)
        return _answer(self._ray, call, START_SECS)

    def _nodes(self) -> list[str]:
        """The address of the node of each bundle. Raises HostLost."""
        addresses = {node['NodeID']: node['NodeManagerAddress'] for node in self._ray.nodes()}
        node_ids = self._ray.util.placement_group_table(self._group)['bundles_to_node_id']
        try:
            return [addresses[node_ids[number]] for number in range(len(self._bundles))]
        except KeyError as error:
            raise HostLost(f'node {error} is gone') from None


def bundle(role: descriptions.RoleTasks) -> dict:
    """What one task of a role needs, as Ray counts it."""
    gpus = {'GPU': role.gpus} if role.gpus else {}
    return {'CPU': role.cores, 'memory': role.memory_mib * 2**20, **gpus}


def address(host: str, port: int) -> str:
    return f'[{host}]:{port}' if ':' in host else f'{host}:{port}'


def _answer(ray: Any, call: Any, secs: float) -> Any:
    """The result of a call of an actor's method. Raises OSError where the method did, HostLost where it is gone."""
    try:
        return ray.get(call, timeout=secs)
    except ray.exceptions.GetTimeoutError:
        raise HostLost(f'its node has not answered for {secs} s') from None
    except ray.exceptions.RayActorError as error:
        raise HostLost(str(error).partition('\n')[0]) from None  # what follows is the log of a raylet
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, OSError):
            raise OSError(str(error.cause)) from None
        raise
    except ray.exceptions.RayError as error:  # such as OutOfMemoryError: Ray has killed the actor
        raise HostLost(str(error).partition('\n')[0]) from None


def main(argv: Sequence[str]) -> int:
    """Runs the command line `argv`, which has no program name, and returns the exit code."""
    try:
        if len(argv) != 1:
            raise UsageError(f'{" ".join(argv) or "no argument"}: name one job description')
        description = descriptions.load(argv[0])
        ray = _connect()
        with Console.for_stream(sys.stderr, os.environ) as console:
            return RemoteSupervisor(description, RayCluster(ray, description), console, random.Random()).run()
    except UsageError as error:
        print(f'error: {error}', file=sys.stderr)
        return exit_codes.USAGE


def _connect() -> Any:
    """The module `ray`, connected to the cluster of this node."""
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise UsageError(f'{error}: the driver runs in the environment of Ray; start it with ray job submit') from None
    try:
        ray.init(address=os.environ.get('RAY_ADDRESS', 'auto'))
    except ConnectionError as error:
        raise UsageError(
            f'RAY_ADDRESS={os.environ.get("RAY_ADDRESS", "")}: {error}; start this on a node of a Ray '
            'cluster, with ray job submit'
        ) from None
    return ray


if __name__ == '__main__':
    inherited.mend()
    sys.exit(main(sys.argv[1:]))
