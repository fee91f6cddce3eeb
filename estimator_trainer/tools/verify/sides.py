"""The two sides of a comparison: what runs where."""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping

from estimator_trainer.errors import UsageError
from estimator_trainer.tools.assess import old_names
from estimator_trainer.tools.verify import interpreters
from estimator_trainer.tools.verify.program_runs import Side


def of(values, program: tuple[str, ...], arguments: tuple[str, ...], environ: Mapping[str, str]) -> tuple[Side, Side]:
    """The sides of --from and --to.

    Args:
        values: the flags of verify.
        program, arguments: what follows `python`.

    Raises:
        UsageError: a Python cannot be used, or the environment names a cluster.
    """
    _refuse_cluster(environ.get('TF_CONFIG'))
    try:
        to_arguments = tuple(shlex.split(values.to_args)) if values.to_args else arguments
    except ValueError as error:
        raise UsageError(f'--to_args={values.to_args}: {error}; write it as for a shell.') from error
    to_tf1 = values.tf1 if values.to_tf1 is None else values.to_tf1
    one = interpreters.ask('from', values.from_ or sys.executable, values.tf1)
    other = interpreters.ask('to', values.to or sys.executable, to_tf1)
    to_program = (values.to_program,) if values.to_program else program
    return Side('from', one, program, arguments, values.tf1), Side('to', other, to_program, to_arguments, to_tf1)


def advice(side: Side) -> Iterator[str]:
    """What may help where the program of a side has failed."""
    if not side.tf1 and len(side.program) == 1:  # not of `-m`
        flag = '--tf1' if side.name == 'from' else '--to_tf1'
        for name in old_names.first(side.program[0]):
            yield f'{side.program[0]} uses names of TensorFlow 1, such as {name}: give {flag}.'


def _refuse_cluster(tf_config: str | None) -> None:
    try:
        cluster = json.loads(tf_config or '{}').get('cluster') or {}
        tasks = sum(len(tasks) for tasks in cluster.values())
    except (ValueError, AttributeError, TypeError) as error:
        raise UsageError(f'TF_CONFIG: cannot be read ({error}); correct it, or unset it.') from error
    if tasks > 1:
        raise UsageError(f'TF_CONFIG: names a cluster of {tasks} tasks, and verify runs one process; unset TF_CONFIG.')
