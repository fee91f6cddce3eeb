"""Reads --param_space, finds out what its names are, and checks all of their values before any trial.

learning_rate:log:1e-4:1e-1     a number between the bounds, each magnitude equally likely
dropout:uniform:0:0.5           a number between the bounds
decay_epochs:int:1:10           a whole number, bounds included
hidden:choice:16,32,64          one of these; with | between them where the values have commas

A name is a param of the job or a flag of the trainer; if both have it, it is the param. A process of its own loads the
job, which is somebody else's code and may import TensorFlow:

    python -m estimator_trainer.tools.sweep.targets PARAMS VARIED FLAG…

PARAMS is a JSON list of texts name=value that a trial may give its job. VARIED is a JSON object, {name: flag of the
trainer}; a flag whose name is a param of the job is left out. FLAG… are the flags of all trials. It writes a line of
JSON to stdout: the job's `params`, {name: default}, and `best`, its best_metric and best_mode. The exit code is not 0
if one of PARAMS cannot be.
"""

import contextlib
import dataclasses
import functools
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence

from estimator_trainer import exit_codes, jobs
from estimator_trainer.config import declaration, flag_values, flag_words, trainer_config, urls
from estimator_trainer.config import flags as flag_reader
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError, nearest
from estimator_trainer.jobs import param_values
from estimator_trainer.this_process import forks
from estimator_trainer.this_process.child_process import PIPE, Child, TookTooLong
from estimator_trainer.tools import command_line

LOG, UNIFORM, INT, CHOICE = 'log', 'uniform', 'int', 'choice'
_EXAMPLES = 'such as learning_rate:log:1e-4:1e-1, dropout:uniform:0:0.5, layers:int:1:4 or hidden:choice:16,32,64'
_JOB_CHECK = (sys.executable, '-m', 'estimator_trainer.tools.sweep.targets')
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


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A value of --param_space.

    Attributes:
        text: the value, as it was given.
        texts: the lowest and the highest value; of a choice all values.
        values: the same, in the type of the flag or param; () before `typed`.
        is_param: the name is that of a param of the job, and not of a flag.
    """

    text: str
    name: str
    kind: str
    texts: tuple[str, ...]
    values: tuple = ()
    is_param: bool = False

    def flag(self, value) -> str:
        """The trainer's flag that gives a trial this value."""
        return f'--{"param=" if self.is_param else ""}{self.name}={param_values.text_of(value)}'

    def refused(self, problem: str) -> UsageError:
        return UsageError(f'--param_space={self.text}: {problem}')


def parse(given: Sequence[str]) -> list[Parameter]:
    """Reads the values of --param_space.

    Raises:
        UsageError: one of them is not NAME:KIND:VALUES, or two have one name.
    """
    parameters = [_parse(text) for text in given]
    names = [parameter.name for parameter in parameters]
    for parameter in parameters:
        if names.count(parameter.name) > 1:
            raise parameter.refused(f'{parameter.name} is given twice; give it once.')
    return parameters


def _parse(text: str) -> Parameter:
    name, _, rest = text.partition(':')
    kind, _, values = rest.partition(':')
    parameter = Parameter(text, name, kind, tuple(values.split(':')))
    if not name or kind not in (LOG, UNIFORM, INT, CHOICE) or not values:
        raise parameter.refused(f'give NAME:KIND:VALUES, {_EXAMPLES}.')
    if kind == CHOICE:
        texts = tuple(part.strip() for part in values.split('|' if '|' in values else ','))
        if len(set(texts)) < max(2, len(texts)) or '' in texts:
            raise parameter.refused('give two or more different values with commas between them.')
        return dataclasses.replace(parameter, texts=texts)
    try:
        low, high = map(float, parameter.texts)
    except ValueError:
        raise parameter.refused(f'give the lowest and the highest value, {_EXAMPLES}.') from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise parameter.refused('the first bound has to be lower than the second one.')
    if kind == LOG and low <= 0:
        raise parameter.refused('a logarithm needs bounds over 0; use uniform.')
    return parameter


def typed(parameter: Parameter, kind: type, is_param: bool = False) -> Parameter:
    """The parameter with its values, for a flag or param of type `kind`.

    Raises:
        UsageError: a value is not of this type, or the kind of parameter does not go with it.
    """
    name = parameter.name
    if parameter.kind != CHOICE and kind not in (int, float):
        raise parameter.refused(f'{name} is not a number; use {name}:{CHOICE}:A,B.')
    wanted = int if parameter.kind == INT else kind
    try:
        values = tuple(param_values.parse(text, wanted()) for text in parameter.texts)
    except ValueError:
        named = {int: 'a whole number', float: 'a number', bool: 'true or false'}[wanted]
        raise parameter.refused(f'{name} is {named}; give such values.') from None
    if len(set(values)) < len(values):
        raise parameter.refused('two of its values are the same; give each once.')
    return dataclasses.replace(parameter, values=values, is_param=is_param)


@dataclasses.dataclass(frozen=True)
class Targets:
    """What a trial sets.

    Attributes:
        config: of a trial, as far as the user's flags say it.
        parameters: in the order of --param_space.
        trainer_flags: of all trials; flagfiles are replaced by what is in them.
        best: the job's best_metric and best_mode.
    """

    config: TrainerConfig
    parameters: tuple[Parameter, ...]
    trainer_flags: tuple[str, ...]
    best: tuple[str, str]

    def flags(self, values: Mapping) -> list[str]:
        """The trainer's flags that give a trial its values."""
        return [parameter.flag(values[parameter.name]) for parameter in self.parameters if parameter.name in values]


def find(parameters: Sequence[Parameter], trainer_flags: Sequence[str]) -> Targets:
    """Finds out what the names of the parameters are.

    Args:
        trainer_flags: the user's.

    Raises:
        UsageError: a flag of the trainer is wrong, a name is unknown, or a value cannot be.
        Ended: the job cannot be loaded, or refuses a value.
    """
    declared = {one.name: one for one in declaration.declared(TrainerConfig)}
    # Flags of the command line count more than those of a flagfile.
    words = sorted(flag_words.words(trainer_flags), key=lambda word: not word.file)
    base = [*DEFAULTS, *(flag_values.with_equals(word, declared).text for word in words)]
    # A trial always has a value of each parameter: --epochs may be one.
    can_vary = [each for each in parameters if each.name in declared and not _is_fixed(declared[each.name])]
    varied = {each.name: each.flag(each.texts[0]) for each in can_vary}
    config = _first_config(base, [*varied.values()])  # costs no process
    if urls.is_url(config.model_dir):
        raise UsageError(
            f'--model_dir={config.model_dir}: a sweep keeps its trials in a folder of this machine; name one. Copy the '
            'best trial to the store afterwards, or train with its flags and a --model_dir there.'
        )
    params, best = facts_of_job([f'{each.name}={text}' for each in parameters for text in each.texts], varied, base)
    found = tuple(_typed(each, declared, params) for each in parameters)
    flags = [each for each in found if not each.is_param]
    some = [*base, *(varied[each.name] for each in flags)]
    config = trainer_config.parse(['sweep', *some])
    for each in flags:
        for value in each.values:  # the trainer judges each of them
            trainer_config.parse(['sweep', *some, each.flag(value)])
    config = dataclasses.replace(config, **{each.name: declared[each.name].default for each in flags})
    return Targets(config, found, tuple(base), best)


def _is_fixed(flag: declaration.Flag) -> bool:
    return flag.name in _NOT_TO_VARY or flag.group == _CLUSTER or flag.type is tuple


def _first_config(base: Sequence[str], varied: Sequence[str]) -> TrainerConfig:
    """The config before the job is known: some of `varied` may be params of the job, with values that no flag of this
    name takes. Raises UsageError if the flags cannot be in any case."""
    refused: list[UsageError] = []
    alone = [each for each in varied if _can_be(each)]
    for flags in (varied, alone, ()):
        try:
            return trainer_config.parse(['sweep', *base, *flags])
        except UsageError as error:
            refused.append(error)
    raise refused[0]


def _can_be(flag: str) -> bool:
    try:
        flag_reader.parse(TrainerConfig, ['sweep', flag])
    except UsageError:
        return False
    return True


def _typed(parameter: Parameter, declared: Mapping[str, declaration.Flag], params: Mapping) -> Parameter:
    name = parameter.name
    if name in params:
        default = params[name]
        return typed(parameter, str if isinstance(default, list) else type(default), True)  # a list: as it is written
    if name not in declared:
        raise parameter.refused(
            f'{name} is no flag of the trainer and no param of the job{nearest(name, [*params, *declared])}. '
            f'Its params: {", ".join(sorted(params)) or "none"}.'
        )
    if _is_fixed(declared[name]):
        raise parameter.refused(f'--{name} is the same in all trials; name another flag or param.')
    return typed(parameter, declared[name].type)


def facts_of_job(
    texts: Sequence[str], varied: Mapping[str, str], trainer_flags: Sequence[str]
) -> tuple[dict, tuple[str, str]]:
    """The params of the job and its best_metric and best_mode, which a process of its own finds out."""
    environ = {name: value for name, value in os.environ.items() if name != 'TF_CONFIG'}
    try:
        command = [*_JOB_CHECK, json.dumps(texts), json.dumps(varied), *trainer_flags]
        with Child(command, env=environ, stdout=PIPE, stderr=PIPE) as child:
            done = child.finish(_CHECK_SECS)
    except TookTooLong:
        raise command_line.Ended(exit_codes.FAILED, f'the job was not loaded within {_CHECK_SECS} s.') from None
    if done.code != exit_codes.OK:
        code = done.code if done.code > 0 else 128 - done.code
        said = done.err.decode(errors='replace').strip()
        print(said or f'error: the job cannot be loaded: {exit_codes.describe(code)}', file=sys.stderr)
        raise command_line.Ended(code)
    with contextlib.suppress(ValueError, IndexError, KeyError, TypeError):
        facts = json.loads(done.out.splitlines()[-1])  # the job may have printed something before
        return dict(facts['params']), tuple(facts['best'])
    raise command_line.Ended(exit_codes.FAILED, 'the process that loads the job has said nothing of its params.')


def _check_job(texts: Sequence[str], varied: Mapping[str, str], flags: Sequence[str]) -> int:
    """What the process of its own does."""
    from estimator_trainer.training import plan as planning

    asked = flag_reader.parse_known(TrainerConfig, ['sweep', *flags])
    name = os.path.abspath(os.path.expanduser(asked.job)) if asked.job_is_file else asked.job
    with forks.parent_only():
        job, early = jobs.load_early(name), True
        if job is None:  # its modules import TensorFlow
            from estimator_trainer import compat

            compat.bring_up()
            job, early = jobs.load(name), False
    given = [flag for name, flag in varied.items() if name not in job.params]
    config = trainer_config.parse(['sweep', *flags, *given])
    plan = planning.with_job(planning.make(config, os.environ), early=early)
    assert plan.job is not None
    job = plan.job
    for text in texts:
        if text.partition('=')[0] in job.params:
            try:
                jobs.checked_params(job, [*config.param, text])
            except UsageError as error:
                raise UsageError(f'--param_space: {text}: {error}') from error
    print(json.dumps({'params': dict(job.params), 'best': [job.best_metric, job.best_mode]}), flush=True)
    return exit_codes.OK


if __name__ == '__main__':
    texts, varied, *flags = sys.argv[1:]
    check = functools.partial(_check_job, json.loads(texts), json.loads(varied), flags)
    sys.exit(command_line.run((), '', TrainerConfig, check, {jobs.JobError: exit_codes.USAGE}))
