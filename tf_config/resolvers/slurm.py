"""The cluster of a step of Slurm, from the variables that `srun` sets for each task.

    SLURM_PROCID               the rank, counted over all components of a heterogeneous job
    SLURM_STEP_NUM_TASKS       how many tasks the step has (SLURM_NTASKS where it is missing)
    SLURM_STEP_NODELIST        its nodes: 'n[1-2]'
    SLURM_STEP_TASKS_PER_NODE  tasks on each of them, in the same order: '1(x2)', '2,1'
    SLURM_RESTART_COUNT        how often the job has been requeued; absent: never
    SLURM_DISTRIBUTION         how ranks go over nodes: 'block', 'cyclic:block'; absent: block
    SLURM_HET_SIZE             number of components of a heterogeneous job, whose ranks come one after the
                               other. The list of nodes above is sorted over all components. The nodes of
                               each are in SLURM_JOB_NODELIST_HET_GROUP_0 and so on (PACK_GROUP instead of
                               HET_GROUP if srun has made the job)
    SLURM_GTIDS                the ranks on this node, SLURMD_NODENAME. The result of all the above is
                               checked against them

A batch script has SLURM_PROCID=0 too, but it is no step: it runs once, on the first node.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from tf_config import hostlist
from tf_config.resolvers.layout import Layout, Ranks, ResolverError, numbered, refusal
from tf_config.resolvers.lookup import NodeLookup

NAME = 'Slurm'
_CURE = 'start the trainer with srun'
_OF_A_TASK = ('SLURM_JOB_ID', 'SLURM_STEP_ID', 'SLURM_PROCID')
_OF_ITS_STEP = ('SLURM_STEP_NODELIST', 'SLURM_STEP_TASKS_PER_NODE')

# The ports without --base_port. Jobs share nodes, so each job has ports of its own, far below those of outgoing
# connections (from 32768 up). Jobs with neighbouring ids never have the same ports. Two jobs whose ids differ by a
# multiple of _BLOCKS do; they get different ports when one of them is requeued.
_FIRST_PORT, _BLOCKS, _PORTS_OF_A_BLOCK = 12000, 1000, 20
_BLOCKS_BETWEEN_STEPS = 101  # of one job
_BLOCKS_BETWEEN_RESTARTS = 307


def is_step(environ: Mapping[str, str]) -> bool:
    """Whether this process is a task of a step."""
    return all(environ.get(name) for name in _OF_A_TASK)


def is_job(environ: Mapping[str, str]) -> bool:
    """Whether this process is inside an allocation: a task of a step, a batch script, or the shell of salloc."""
    return bool(environ.get('SLURM_JOB_ID'))


def resolve(environ: Mapping[str, str], layout: Layout, look_up: NodeLookup) -> Ranks:
    """The ranks of this step. `look_up` finds the addresses of its nodes.

    Raises:
        ResolverError: this process is no task of a step, the variables of the step contradict each other, or a node
            has no address.
    """
    for name in (*_OF_A_TASK, *_OF_ITS_STEP):
        if not environ.get(name):
            what = (
                'the step does not say where its tasks are'
                if is_step(environ)
                else 'a batch script or an allocation is no step, and has one process'
                if is_job(environ)
                else 'this is no task of a Slurm job'
            )
            raise refusal(NAME, name, None, f'{what}; {_CURE}')
    job, step, rank = (_whole(environ, name) for name in _OF_A_TASK)
    nodes = _node_of_each_rank(environ, _tasks_on(environ))
    _check_own_node(environ, nodes, rank)
    where = f'step {job}.{step} on {environ["SLURM_STEP_NODELIST"]}'
    restarts = _whole(environ, 'SLURM_RESTART_COUNT') if environ.get('SLURM_RESTART_COUNT') else 0
    first_port = layout.base_port or base_port(job, step, restarts)
    if len(nodes) == 1:
        return Ranks(NAME, where, rank, 'SLURM_PROCID', (f'{nodes[0]}:{first_port}',))
    places = look_up(tuple(dict.fromkeys(nodes)))
    for node in nodes:
        if node not in places:
            raise refusal(
                NAME,
                'SLURM_STEP_NODELIST',
                environ['SLURM_STEP_NODELIST'],
                f'node {node} has no address: its name does not resolve here, and scontrol knows none; mend '
                'that, or use --cluster_from=hosts --hosts=... --rank=$SLURM_PROCID',
            )
    hosts = [places[node][0] for node in nodes]
    addresses = numbered(NAME, hosts, first_port, place=dict(places.values()).get)
    return Ranks(NAME, where, rank, 'SLURM_PROCID', addresses)


def base_port(job: int, step: int, restarts: int) -> int:
    """The lowest port of a step without --base_port. `job` and `step` are Slurm's numbers of them."""
    block = job + _BLOCKS_BETWEEN_STEPS * step + _BLOCKS_BETWEEN_RESTARTS * restarts
    return _FIRST_PORT + _PORTS_OF_A_BLOCK * (block % _BLOCKS)


def _whole(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, '')
    if not re.fullmatch('[0-9]{1,10}', text):
        raise refusal(NAME, name, environ.get(name), f'a whole number from 0 is wanted; {_CURE}')
    return int(text)


def _nodes(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(environ[name])
    except ValueError as error:
        raise refusal(NAME, name, environ[name], str(error)) from None


def _tasks_on(environ: Mapping[str, str]) -> dict[str, int]:
    """The number of tasks of the step on each node."""
    nodes, text = _nodes(environ, 'SLURM_STEP_NODELIST'), environ['SLURM_STEP_TASKS_PER_NODE']

    def refused(problem: str) -> ResolverError:
        return refusal(NAME, 'SLURM_STEP_TASKS_PER_NODE', text, problem)

    counts: list[int] = []
    for item in text.split(','):
        match = re.fullmatch(r'([0-9]{1,5})(?:\(x([0-9]{1,5})\))?', item)
        if not match:
            raise refused('is not of the form "2(x3),1"')
        counts += [int(match[1])] * int(match[2] or 1)
    if len(counts) != len(nodes) or len(set(nodes)) != len(nodes):
        raise refused(
            f'counts {len(counts)} nodes, and SLURM_STEP_NODELIST = '
            f'{environ["SLURM_STEP_NODELIST"]} names {len(set(nodes))}: they are not of one step; '
            f'{_CURE}'
        )
    counter = 'SLURM_STEP_NUM_TASKS' if environ.get('SLURM_STEP_NUM_TASKS') else 'SLURM_NTASKS'
    if sum(counts) != _whole(environ, counter):
        raise refused(
            f'adds up to {sum(counts)} tasks, and {counter} = {environ[counter]}: they are not of one step; {_CURE}'
        )
    return dict(zip(nodes, counts))


def _components(environ: Mapping[str, str], nodes: Iterable[str]) -> list[list[str]]:
    """The nodes of each component of the job that are among `nodes`, in the order of the ranks."""
    if not environ.get('SLURM_HET_SIZE'):
        return [list(nodes)]
    components = []
    for number in range(min(_whole(environ, 'SLURM_HET_SIZE'), hostlist.MOST)):
        names = [f'SLURM_JOB_NODELIST_{kind}_GROUP_{number}' for kind in ('HET', 'PACK')]
        set_names = [name for name in names if environ.get(name)]
        if not set_names:
            raise refusal(
                NAME,
                names[0],
                None,
                'the nodes of each component of this heterogeneous job are not told; submit it with sbatch',
            )
        components.append([node for node in _nodes(environ, set_names[0]) if node in nodes])
    if sorted(node for component in components for node in component) != sorted(nodes):
        raise refusal(
            NAME,
            'SLURM_STEP_NODELIST',
            environ['SLURM_STEP_NODELIST'],
            'are not nodes of one component each of this heterogeneous job; give the components nodes of their own',
        )
    return components


def _node_of_each_rank(environ: Mapping[str, str], tasks_on: Mapping[str, int]) -> list[str]:
    text = environ.get('SLURM_DISTRIBUTION') or 'block'
    how = re.split('[:,=]', text.lower())[0]  # the rest is about sockets and cores
    result: list[str] = []
    for nodes in _components(environ, tasks_on):
        block = [node for node in nodes for _ in range(tasks_on[node])]
        turns = range(max((tasks_on[node] for node in nodes), default=0))
        cyclic = [node for turn in turns for node in nodes if tasks_on[node] > turn]
        if how == 'arbitrary' or how not in ('block', 'cyclic') and block != cyclic:
            raise refusal(
                NAME,
                'SLURM_DISTRIBUTION',
                text,
                'the order of the ranks is known for block and cyclic only; use srun --distribution=block',
            )
        result += cyclic if how == 'cyclic' else block
    return result


def _check_own_node(environ: Mapping[str, str], nodes: Sequence[str], rank: int) -> None:
    """Compares `nodes`, the node of each rank, with the ranks on this node, which Slurm tells its tasks."""
    node = environ.get('SLURMD_NODENAME')
    if not node:
        return
    expected = [str(other) for other, name in enumerate(nodes) if name == node]
    on_this_node = environ.get('SLURM_GTIDS')
    if str(rank) not in expected or on_this_node and sorted(on_this_node.split(',')) != sorted(expected):
        raise refusal(
            NAME,
            'SLURM_GTIDS',
            on_this_node or rank,
            f'are the ranks on this node, {node}, and by the other variables they were '
            f'{",".join(expected) or "none"}: use srun --distribution=block, with one component or '
            'those of a heterogeneous job',
        )
