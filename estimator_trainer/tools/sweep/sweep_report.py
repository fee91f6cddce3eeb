"""What is said of a sweep: the table of trials, sweep.json, its page, and lines for Katib."""

import dataclasses
import datetime
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import param_values
from estimator_trainer.run_dir import file_names, metrics_log
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.this_process.child_process import PIPE, Child, TookTooLong
from estimator_trainer.this_process.log import duration
from tf_config import tables

RUNNING, DONE, PRUNED, FAILED = 'running', 'done', 'pruned', 'failed'  # running, or the next start goes on with it
_NUMBERED = ('final', 'best')  # exports, the one that the metric is of first
_PAGE_SECS = 300
_KATIB_LINE = re.compile(r'\d{4}-\d\d-\d\dT[\d:.]+Z .+=\S+$')


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial, as programs and people see it.

    Attributes:
        number: from 1.
        state: RUNNING, DONE, PRUNED or FAILED.
        params: name -> value.
        value: of the metric: of the last evaluation; of a pruned trial, that at which it was pruned.
        step: of that evaluation.
        exit_code, cause: of a failed trial.
        secs: that the trial took, in this start of the sweep.
    """

    number: int
    state: str
    model_dir: str
    params: Mapping
    value: float | None = None
    step: int | None = None
    exit_code: int | None = None
    cause: str | None = None
    secs: float | None = None

    @property
    def params_in_words(self) -> str:
        return ', '.join(f'{name} {shown(value)}' for name, value in self.params.items()) or 'nothing varies'

    @property
    def entry(self) -> dict:
        """As sweep.json has it."""
        return {'trial' if name == 'number' else name: value for name, value in vars(self).items()}

    @property
    def failure(self) -> str:
        return f'exit code {self.exit_code} ({exit_codes.describe(self.exit_code)}): {self.cause}'


def shown(value) -> str:
    """A value as people read it."""
    return f'{value:.4g}' if isinstance(value, float) else param_values.text_of(value)


def best(trials: Iterable[Trial], mode: str) -> Trial | None:
    """The best trial that is done, of equal ones the first; None without one."""
    done = [trial for trial in trials if trial.state == DONE]
    return (max if mode == 'max' else min)(done, key=lambda trial: trial.value, default=None)


def ended(trial: Trial, trials: Sequence[Trial], metric: str, mode: str) -> str:
    """How a trial has ended, and the best one so far."""
    if trial.state == FAILED:
        what = f'failed with {_first_sentence(trial.failure)}'
    elif trial.state == PRUNED:
        said = 'its best value so far is worse than the median of the trials that are done'
        what = f'is pruned at step {trial.step}: {metric} {shown(trial.value)}, {said}'
    else:
        what = f'is done: {metric} {shown(trial.value)} at step {trial.step}'
    found = best(trials, mode)
    if found is None:
        return what
    return f'{what}; ' + (
        'the best so far'
        if found.number == trial.number
        else f'best so far {shown(found.value)} of trial {found.number}'
    )


def table(trials: Sequence[Trial], metric: str) -> str:
    """A line for each trial."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.params))
    rows = [('trial', 'state', *names, metric, 'step', 'time')]
    causes: dict[str, list[str]] = {}
    for trial in trials:
        values = [*(trial.params.get(name) for name in names), trial.value, trial.step]
        time = None if trial.secs is None else duration(trial.secs)
        rows.append(tuple('' if each is None else shown(each) for each in (trial.number, trial.state, *values, time)))
        if trial.state == FAILED:
            causes.setdefault(_first_sentence(trial.cause or ''), []).append(str(trial.number))
    failed = (f'failed: trial {", ".join(which)}: {cause}' for cause, which in causes.items())
    return '\n'.join([*tables.aligned(rows, right=True), *failed])


def _first_sentence(text: str) -> str:
    """sweep.json has all of it."""
    return text.partition('. ')[0]


def conclusion(trials: Sequence[Trial], metric: str, mode: str, flags_of: Callable[[Mapping], list[str]]) -> str:
    """The best trial, its folder and its export. `flags_of`: the trainer's flags that give a trial its params."""
    found = best(trials, mode)
    if found is None:
        return 'best: none, because no trial is done'
    lines = [
        f'best: trial {found.number}, {metric} {shown(found.value)}: {found.params_in_words}',
        f'folder: {found.model_dir}',
        f'export: {export_of(found.model_dir) or "none"}',
    ]
    return '\n'.join([*lines, f'flags: {shlex.join(flags_of(found.params))}'] if found.params else lines)


def document(state: str, plan: Mapping, trials: Sequence[Trial], flags_of: Callable[[Mapping], list[str]]) -> dict:
    """sweep.json. `state`: running, stopped, failed or done. `plan`: the fields of SweepPlan."""
    found = best(trials, plan['mode'])
    more = {'export': export_of(found.model_dir), 'flags': flags_of(found.params)} if found else {}
    return {
        'state': state,
        **{name: plan[name] for name in ('metric', 'mode', 'seed', 'param_space')},
        'best': found.entry | more if found else None,
        'trials': [trial.entry for trial in trials],
    }


def export_of(model_dir: str) -> str | None:
    """The newest SavedModel of a trial: the one of the end of training, which the metric is of, or else the best."""
    exports = {export.kind: export for export in RunFolder(model_dir).exports}  # the newest of each kind
    newest = next((exports[kind] for kind in _NUMBERED if kind in exports), None)
    return os.path.join(model_dir, newest.path) if newest else None


def write_page(folder: str) -> str | None:
    """Has the command `report` compare the trials. The path of the page; None where there is none to be had: the table
    and sweep.json are there."""
    try:
        with Child([sys.executable, '-m', 'estimator_trainer', 'report', folder], stdout=PIPE, stderr=PIPE) as child:
            done = child.finish(_PAGE_SECS)
    except TookTooLong:
        return None
    return os.path.join(folder, file_names.SWEEP_PAGE) if done.code == exit_codes.OK else None


def refuse_other_metrics(path: str) -> None:
    """Comes before the file of --katib_metrics is made anew.

    Raises:
        UsageError: a file is there whose first line is not one of Katib's.
    """
    if not os.path.isfile(path):  # a pipe, or nothing
        return
    with open(path, encoding='utf-8', errors='replace') as file:
        first = file.readline().rstrip('\n')
    if first and not _KATIB_LINE.match(first):
        raise UsageError(
            f'--katib_metrics={path}: is there already, and holds no metrics of Katib; move it away, or name another.'
        )


def write_metrics(lines: Iterable[Mapping], file: IO[str] | None) -> None:
    """Writes lines of eval/metrics.jsonl in Katib's format, which its collectors of kind StdOut and File (format TEXT)
    read: `<RFC 3339 time> name=value` for each finite number."""
    for line in lines if file else ():
        at = datetime.datetime.fromtimestamp(line.get('time') or 0, datetime.timezone.utc)
        stamp = at.isoformat(timespec='milliseconds').replace('+00:00', 'Z')
        for name, value in metrics_log.values_of(line).items():
            print(f'{stamp} {name}={value!r}', file=file, flush=True)
