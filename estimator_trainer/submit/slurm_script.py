"""Slurm: a job description -> the script for sbatch.

What the script does, in this order:

1. `srun` starts every task in one step. Where roles need different resources the job has a component for
   each (`hetjob`), and ranks go through the components in the order of the roles.
2. Before the time limit Slurm sends SIGTERM to the tasks, and not to the script: they save and leave with
   143, and the script still has time for what follows. Preemption and `scancel --signal=TERM` are the same to them.
3. A task that fails ends the step (`--kill-on-bad-exit`); the others would end by themselves, a little later.
4. `verdict` decides whether another try may help. If so the script has the job requeued, and Slurm runs it
   again under the same number: it resumes from the last checkpoint.

If the model_dir is in a store, the nodes share nothing. Each task works in a folder of its node, and says there how it
ended. A second step collects that for the verdict, whose record is in the store.
"""

import itertools
import math
import pathlib
import re
import shlex
from collections.abc import Callable, Iterable

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import protocol
from estimator_trainer.submit import verdict
from estimator_trainer.submit.description import Description, RoleTasks

Component = tuple[int, RoleTasks]  # how many tasks, and what each of them needs

_OPTIONS = (  # of the script's own
    '--open-mode --signal --requeue --no-requeue --ntasks -n --cpus-per-task -c --mem --mem-per-cpu '
    '--gpus-per-task --job-name -J --output -o --array -a --time -t'
).split()

_STEP = '--export=ALL --kill-on-bad-exit=1 --wait=0 --label --distribution=block'
_TASK = f'export {protocol.ERROR_FILE}="$0/$SLURM_PROCID.error.json"; exec "$@"'
_NODE = '-m estimator_trainer.submit.slurm_node'
_TELL_SECS = 60
_DECIDE_SECS = 15  # for the verdict and the requeue, after all that a task may take to save
_BREAK = ' \\\n  '
_JOB = '--job="slurm-$SLURM_JOB_ID" '


def render(description: Description) -> dict[str, str]:
    """The script, by its file name.

    Raises:
        UsageError: the roles make up no cluster, or `slurm.extra` contradicts the script.
    """
    description.check_roles()
    components = _components(description.roles)
    lines = ['#!/bin/bash', *_directives(description, components), '', 'set -u']
    lines += [f'export {name}={shlex.quote(value)}' for name, value in description.environment]
    lines += [
        '',
        'attempt=${SLURM_RESTART_COUNT:-0}',
        *(_notes_of_store(description) if description.in_store else _notes(description)),
        f'export {protocol.GENERATION}=slurm-$SLURM_JOB_ID-$attempt',
        '',
        _srun(description, components),
        'code=$?',
        *(_collect(description, components) if description.in_store else ()),
        '',
        _BREAK.join(
            [
                f'{shlex.quote(description.python)} -m estimator_trainer.submit.verdict',
                shlex.quote(f'--model_dir={description.model_dir}'),
                f'--folder="$logs" --attempt="$attempt" --roles={description.layout} '
                f'--max_restarts={description.max_restarts} {_JOB if description.in_store else ""}"$code"',
            ]
        ),
        'verdict=$?',
        f'(( verdict == {verdict.AGAIN} )) || exit "$verdict"',
        'scontrol requeue "$SLURM_JOB_ID" || exit "$code"',
    ]
    return {f'{description.name}.sbatch': '\n'.join(lines) + '\n'}


def _notes(description: Description) -> list[str]:
    """The folder in which tasks say how they ended, on the file system that all share."""
    return [
        f'logs={shlex.quote(f"{description.model_dir}/logs")}/slurm-$SLURM_JOB_ID',
        f'mkdir -p "$logs/$attempt" && rm -f "$logs/$attempt"/{verdict.ERROR_FILES} || exit {exit_codes.CANNOT_WRITE}',
        '(( attempt )) && [ -s "$logs/started" ] || date +%s > "$logs/started"',
        f'export {protocol.STARTED}=$(< "$logs/started")',
    ]


def _notes_of_store(description: Description) -> list[str]:
    """A folder of this node, into which the second step collects how the tasks ended."""
    return [
        f'# The environment of the tasks needs estimator-trainer[{description.extra}].',
        f'logs=$(mktemp -d) && mkdir "$logs/$attempt" || exit {exit_codes.CANNOT_WRITE}',
        'trap \'rm -rf "$logs"\' EXIT',
        f'export {protocol.STARTED}=$(date +%s)',
    ]


def _collect(description: Description, components: list[Component]) -> list[str]:
    """Collects how the tasks ended from all nodes into $logs. If all is well, it removes their folders."""
    tell = f'{shlex.quote(description.python)} {_NODE} tell "$SLURM_JOB_ID" "$attempt" "$code"'
    steps = []
    for number in range(len(components)):
        group, nodes = '', '"$SLURM_JOB_NUM_NODES"'
        if len(components) > 1:
            group, nodes = f'--het-group={number} ', f'"$SLURM_JOB_NUM_NODES_HET_GROUP_{number}"'
        options = f'{group}--nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --overlap'
        steps.append(f'  timeout {_TELL_SECS} srun {options}{_BREAK}  {tell}')
    return ['', '{', *steps, '} | split -l 1 -a 5 --additional-suffix=.error.json - "$logs/$attempt/"']


def submit(description: Description, folder: pathlib.Path, run: Callable) -> int:
    """Gives the script to sbatch, and returns its exit code. `folder` may go then: it has read the script."""
    return run(['sbatch', *(str(folder / name) for name in render(description))]).returncode


def _components(roles: Iterable[tuple[str, RoleTasks]]) -> list[Component]:
    """The components of the job. Neighbouring roles that need the same resources are one component."""
    groups = [[role for _, role in group] for _, group in itertools.groupby(roles, lambda item: item[1].resources)]
    return [(sum(role.count for role in group), group[0]) for group in groups]


def _directives(description: Description, components: list[Component]) -> list[str]:
    extra = description.slurm.extra
    for option in extra:
        match = re.match('--[^= ]*|-.', option)
        name = match[0] if match else option
        if any(own == name or own.startswith(name) and name.startswith('--') for own in _OPTIONS):  # or short for it
            raise description.error('slurm.extra', f"{name} is the script's own; leave it out")
    job = [f'--job-name={description.name}', f'--output={description.name}-%j.out', '--open-mode=append', '--requeue']
    if description.working_dir:
        job.append(f'--chdir={description.working_dir}')
    each = [f'--signal=TERM@{_told_secs(description, components)}']
    if description.time_limit_minutes:
        each.append(f'--time={description.time_limit_minutes}')
    each += [
        f'--{name}={value}'
        for name, value in (('partition', description.slurm.partition), ('account', description.slurm.account))
        if value
    ]
    lines = [f'#SBATCH {shlex.quote(option)}' for option in job]
    for number, (count, role) in enumerate(components):
        if number:
            lines.append('#SBATCH hetjob')
        options = [
            *each,
            f'--ntasks={count}',
            *_resources(role),
            f'--mem-per-cpu={math.ceil(role.memory_mib / role.cores)}M',
            *extra,
        ]
        lines += [f'#SBATCH {shlex.quote(option)}' for option in options]
    return lines


def _told_secs(description: Description, components: list[Component]) -> int:
    """How long before the time limit the tasks are told to stop. The time limit ends the script as well, which has to
    decide and to have the job requeued once they have saved."""
    collect = len(components) * _TELL_SECS if description.in_store else 0
    return description.grace_secs + _DECIDE_SECS + collect


def _resources(role: RoleTasks) -> list[str]:
    """The options for the resources of one task, which srun does not take over from sbatch."""
    return [f'--cpus-per-task={role.cores}', *([f'--gpus-per-task={role.gpus}'] if role.gpus else [])]


def _task(description: Description) -> str:
    """The words that start the command of a task on its node."""
    if not description.in_store:
        return f'bash -c {shlex.quote(_TASK)} "$logs/$attempt"'
    python, scratch = shlex.quote(description.python), shlex.quote(description.scratch_dir or '')
    return f'{python} {_NODE} run "$SLURM_JOB_ID" "$attempt" {scratch}'


def _srun(description: Description, components: list[Component]) -> str:
    """The step. The words that every task runs are in an array, because each component of the job needs them."""
    flags = ['--cluster_from=slurm', f'--roles={description.layout}']
    if description.base_port:
        flags.append(f'--base_port={description.base_port}')
    python, *trainer = description.command(*flags)
    words = [_task(description), shlex.join([python, *trainer[:2]]), *map(shlex.quote, trainer[2:])]
    steps = []
    for number, (count, role) in enumerate(components):
        group = [f'--het-group={number}'] if len(components) > 1 else []
        own = shlex.join([*group, f'--ntasks={count}', *_resources(role)])
        steps.append(f'{own}{_BREAK}{_STEP} "${{task[@]}}"')
    return '\n'.join(['task=(', *(f'  {word}' for word in words), ')', 'srun ' + f'{_BREAK}: '.join(steps)])
