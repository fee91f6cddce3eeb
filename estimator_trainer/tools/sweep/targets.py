"""What the names of --param_space are: flags of the trainer, or params of the job. Checks them before any trial."""

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.config import declaration, flag_words, trainer_config, urls
from estimator_trainer.errors import UsageError, nearest
from estimator_trainer.this_process.child_process import PIPE, Child, TookTooLong
from estimator_trainer.tools.sweep import space as spaces
from estimator_trainer.tools.sweep.space import Parameter, Space

_JOB_CHECK = (sys.executable, '-m', 'estimator_trainer.tools.sweep.job_check')
_CHECK_SECS = 300  # a job that imports TensorFlow takes seconds
_CLUSTER = 'Cluster'
_NOT_TO_VARY = (
    *('job', 'param', 'model_dir', 'allow_config_change', 'progress', 'report', 'track', 'dry_run', 'export'),
    *('profile_steps', 'profile_tasks', 'metrics_port'),
    *('scratch_dir', 'max_unpushed_secs', 'data_cache_dir', 'data_cache_mib'),
    *('stop_metric', 'stop_mode', 'stop_patience', 'stop_min_delta'),  # pruning goes by them
)

# What every trial has, unless the trainer's flags say otherwise.
DEFAULTS = (
    '--deterministic',  # a trial that was killed ends with the value of one that was not
    '--eval_throttle_secs=0',  # every checkpoint is evaluated, so that evaluations do not depend on the clock
    '--progress=off',
)


class CheckFailed(Exception):
    """The process that looks at the job has failed, and has said why. `code` is its exit code."""

    def __init__(self, code: int, said: str):
        super().__init__(said)
        self.code = code


@dataclasses.dataclass(frozen=True)
class Targets:
    """What a trial sets.

    Attributes:
        config: TrainerConfig of a trial, as far as the user's flags say it.
        parameters: in the order of --param_space.
        trainer_flags: of all trials; flagfiles are replaced by what is in them.
        params: names of those that are params of the job; the others are flags of the trainer.
        best: the job's best_metric and best_mode.
    """

    config: trainer_config.TrainerConfig
    parameters: tuple[Parameter, ...]
    params: frozenset[str]
    trainer_flags: tuple[str, ...]
    best: tuple[str, str]

    def flags(self, values: Mapping) -> list[str]:
        """The trainer's flags that give a trial its values."""
        return [
            f'--{"param=" if name in self.params else ""}{name}={spaces.text_of(value)}'
            for name, value in values.items()
        ]


def find(given: Sequence[Space], trainer_flags: Sequence[str]) -> Targets:
    """Finds out what the names of the spaces are.

    Args:
        trainer_flags: the user's.

    Raises:
        UsageError: a flag of the trainer is wrong, a name is unknown, or a value cannot be.
        CheckFailed: the job cannot be loaded, or refuses a value.
    """
    declared = {one.name: one for one in declaration.declared(trainer_config.TrainerConfig)}
    for space in given:
        _refuse_what_is_the_same(space, declared.get(space.name))
    # A trial always has a value of each parameter: --epochs may be one.
    some = [f'--{space.name}={space.texts[0]}' for space in given if space.name in declared]
    texts = [f'{space.name}={text}' for space in given for text in space.texts]
    expanded = _expanded(trainer_flags)
    base = [*DEFAULTS, *expanded]
    config = trainer_config.parse(['sweep', *base, *some])  # costs no process
    if urls.is_url(config.model_dir):
        raise UsageError(
            f'--model_dir={config.model_dir}: a sweep keeps its trials in a folder of this machine; name one. Copy the '
            'best trial to the store afterwards, or train with its flags and a --model_dir there.'
        )
    params, best = _facts_of_job(texts, [*base, *some])
    parameters = tuple(_parameter(space, declared, params) for space in given)
    for parameter in parameters:
        if parameter.name not in params:
            for value in parameter.values:  # the trainer judges each of them
                trainer_config.parse(['sweep', *base, *some, f'--{parameter.name}={spaces.text_of(value)}'])
    varied = {
        parameter.name: declared[parameter.name].default for parameter in parameters if parameter.name in declared
    }
    return Targets(
        dataclasses.replace(config, **{name: value for name, value in varied.items() if name not in params}),
        parameters,
        frozenset(parameter.name for parameter in parameters if parameter.name in params),
        tuple(base),
        best,
    )


def _refuse_what_is_the_same(space: Space, flag) -> None:
    if flag is not None and (flag.name in _NOT_TO_VARY or flag.group == _CLUSTER or flag.type is tuple):
        raise UsageError(
            f'--param_space={space}: --{space.name} is the same in all trials; name another flag or param.'
        )


def _parameter(space: Space, declared, params) -> Parameter:
    if space.name in params:
        default = params[space.name]
        return spaces.typed(space, str if isinstance(default, list) else type(default))  # a list: as it is written
    flag = declared.get(space.name)
    if flag is None:
        meant = nearest(space.name, [*params, *declared])
        has = ', '.join(sorted(params)) or 'none'
        raise UsageError(
            f'--param_space={space}: {space.name} is no flag of the trainer and no param of the job{meant}. '
            f'Its params: {has}.'
        )
    return spaces.typed(space, flag.type)


def _expanded(trainer_flags: Sequence[str]) -> list[str]:
    """The flags, with every flagfile replaced by what is in it, before those of the command line, which count more."""
    words = flag_words.words(trainer_flags)
    return [word.text for word in sorted(words, key=lambda word: not word.file)]


def _facts_of_job(texts: Sequence[str], trainer_flags: Sequence[str]) -> tuple[dict, tuple[str, str]]:
    environ = {name: value for name, value in os.environ.items() if name != 'TF_CONFIG'}
    try:
        with Child([*_JOB_CHECK, json.dumps(texts), *trainer_flags], env=environ, stdout=PIPE, stderr=PIPE) as child:
            done = child.finish(_CHECK_SECS)
    except TookTooLong:
        raise CheckFailed(exit_codes.FAILED, f'error: the job was not loaded within {_CHECK_SECS} s.') from None
    if done.code != exit_codes.OK:
        code = done.code if done.code > 0 else 128 - done.code
        raise CheckFailed(
            code,
            done.err.decode(errors='replace').strip()
            or f'error: the job cannot be loaded: {exit_codes.describe(code)}',
        )
    with contextlib.suppress(ValueError, IndexError, KeyError, TypeError):
        facts = json.loads(done.out.splitlines()[-1])  # the job may have printed something before
        return dict(facts['params']), tuple(facts['best'])
    raise CheckFailed(exit_codes.FAILED, 'error: the process that loads the job has said nothing of its params.')
