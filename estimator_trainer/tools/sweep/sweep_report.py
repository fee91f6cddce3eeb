"""What is said of a sweep: lines, the table of trials, sweep.json. Pure: data in, text and JSON out."""

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.this_process.log import duration
from estimator_trainer.tools.sweep import trial as trials
from estimator_trainer.tools.sweep.evaluations import Score
from estimator_trainer.tools.sweep.space import shown
from estimator_trainer.tools.sweep.sweep_plan import SweepPlan
from estimator_trainer.tools.sweep.trial import Trial, TrialStatus
from tf_config import tables

_NUMBERED = ('final', 'best')  # exports, the one that the metric is of first


def params_in_words(params: Mapping) -> str:
    """The params of a trial in words."""
    return ', '.join(f'{name} {shown(value)}' for name, value in params.items()) or 'nothing varies'


def begins(trial: Trial, count: int, again: bool) -> str:
    goes_on = ' goes on' if again else ''
    return f'trial {trial.number} of {count}{goes_on}: {params_in_words(trial.params)}'


def evaluated(trial: Trial, evaluation: Score, metric: str) -> str:
    value = 'not finite' if evaluation.value is None else shown(evaluation.value)
    return f'trial {trial.number}: {metric} {value} at step {evaluation.step}'


def ended(trial: Trial, all_trials: Sequence[Trial], plan: SweepPlan, count: int) -> str:
    """How a trial has ended, and the best one so far."""
    if trial.state is TrialStatus.FAILED:
        what = f'failed with exit code {trial.exit_code} ({exit_codes.describe(trial.exit_code)}): {_in_short(trial)}'
    elif trial.state is TrialStatus.PRUNED:
        said = 'its best value so far is worse than the median of the trials that are done'
        what = f'is pruned at step {trial.step}: {plan.metric} {shown(trial.value)}, {said}'
    else:
        what = f'is done: {plan.metric} {shown(trial.value)} at step {trial.step}'
    best = trials.best(all_trials, plan.maximizes)
    if best is None:
        return f'trial {trial.number} of {count} {what}'
    so_far = (
        'the best so far' if best.number == trial.number else f'best so far {shown(best.value)} of trial {best.number}'
    )
    return f'trial {trial.number} of {count} {what}; {so_far}'


def stopped(trial: Trial) -> str:
    return f'trial {trial.number} is stopped; the next start of the sweep goes on with it'


def stopping(signum, running: Sequence[Trial]) -> str:
    which = ', '.join(f'trial {trial.number}' for trial in running)
    return f'received {signum.name}: stopping {which} after a checkpoint; the same command goes on'


def hopeless(failed: int, last: Trial) -> str:
    return (
        f'the sweep ends: the first {failed} trials have failed (--max_failed). Mend the cause and start the same '
        f'command again, which goes on with new trials. The last one: exit code {last.exit_code} '
        f'({exit_codes.describe(last.exit_code)}): {last.cause}'
    )


def table(all_trials: Sequence[Trial], plan: SweepPlan) -> str:
    """A line for each trial."""
    names = sorted({name for trial in all_trials for name in trial.params}, key=_order(all_trials))
    rows = [('trial', 'state', *names, plan.metric, 'step', 'time')]
    for trial in all_trials:
        rows.append(
            (
                str(trial.number),
                trial.state.value,
                *(shown(trial.params[name]) if name in trial.params else '' for name in names),
                '' if trial.value is None else shown(trial.value),
                '' if trial.step is None else str(trial.step),
                '' if trial.secs is None else duration(trial.secs),
            )
        )
    causes: dict[str, list[str]] = {}
    for trial in all_trials:
        if trial.state is TrialStatus.FAILED:
            causes.setdefault(_in_short(trial), []).append(str(trial.number))
    failed = (f'failed: trial {", ".join(which)}: {cause}' for cause, which in causes.items())
    return '\n'.join([*tables.aligned(rows, right=True), *failed])


def conclusion(
    all_trials: Sequence[Trial], plan: SweepPlan, folder: str, flags_of: Callable[[Mapping], list[str]]
) -> str:
    """The best trial, its folder and its export. `flags_of`: the trainer's flags that give a trial its params."""
    best = trials.best(all_trials, plan.maximizes)
    if best is None:
        return 'best: none, because no trial is done'
    model_dir = trials.folder_of(folder, best.number)
    lines = [
        f'best: trial {best.number}, {plan.metric} {shown(best.value)}: {params_in_words(best.params)}',
        f'folder: {model_dir}',
    ]
    export = export_of(model_dir)
    lines.append(f'export: {export or "none"}')
    if best.params:
        lines.append(f'flags: {shlex.join(flags_of(best.params))}')
    return '\n'.join(lines)


def document(
    state: str, plan: SweepPlan, all_trials: Sequence[Trial], folder: str, flags_of: Callable[[Mapping], list[str]]
) -> dict:
    """sweep.json. `state`: running, stopped, failed or done."""
    best = trials.best(all_trials, plan.maximizes)
    more = {}
    if best:
        more = {'export': export_of(trials.folder_of(folder, best.number)), 'flags': flags_of(best.params)}
    return {
        'state': state,
        'metric': plan.metric,
        'mode': plan.mode,
        'seed': plan.seed,
        'param_space': list(plan.param_space),
        'best': _entry(best, folder) | more if best else None,
        'trials': [_entry(trial, folder) for trial in all_trials],
    }


def export_of(model_dir: str) -> str | None:
    """The newest SavedModel of a trial: the one of the end of training, which the metric is of, or else the best."""
    exports = {export.kind: export for export in RunFolder(model_dir).exports}  # the newest of each kind
    newest = next((exports[kind] for kind in _NUMBERED if kind in exports), None)
    return os.path.join(model_dir, newest.path) if newest else None


def _in_short(trial: Trial) -> str:
    """The first sentence of its cause; sweep.json has all of it."""
    return trial.cause.partition('. ')[0]


def _entry(trial: Trial, folder: str) -> dict:
    return {
        'trial': trial.number,
        'state': trial.state.value,
        'params': dict(trial.params),
        'value': trial.value,
        'step': trial.step,
        'exit_code': trial.exit_code,
        'cause': trial.cause or None,
        'secs': trial.secs,
        'model_dir': trials.folder_of(folder, trial.number),
    }


def _order(all_trials: Iterable[Trial]):
    """Sorts names of params as the first trial that has them does."""
    names: dict[str, None] = {}
    for trial in all_trials:
        names.update(dict.fromkeys(trial.params))
    order = list(names)
    return order.index
