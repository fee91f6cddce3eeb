"""Decides whether training stops because a metric no longer improves: a function of the evaluations so far.

The evaluations are the lines of `eval/metrics.jsonl`. A restarted run adds to these lines, so it also goes on counting
the evaluations without an improvement. The task that evaluates decides once, and writes `eval/stop.json`; the chief
reads it.
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from estimator_trainer.errors import UsageError, nearest
from estimator_trainer.jobs import metric_names
from estimator_trainer.run_dir import file_names, metrics_log, protocol
from estimator_trainer.run_dir.run_folder import RunFolder

if TYPE_CHECKING:
    from estimator_trainer.config.trainer_config import TrainerConfig


@dataclasses.dataclass(frozen=True)
class EarlyStopping:
    """`patience`: evaluations in a row without an improvement of more than `min_delta`."""

    metric: str
    mode: str  # 'min' or 'max'
    patience: int
    min_delta: float = 0.0

    def verdict(self, evaluations: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
        """Why training should stop, or None.

        Args:
            evaluations: lines of eval/metrics.jsonl, oldest first. Those that lack the metric are of an earlier start,
                with another job or other flags.
        """
        best, best_step, since = None, None, 0
        for line in _of_one_training(evaluations):
            if self.metric not in line:
                continue
            step, value = line['step'], line[self.metric]
            may_be_best = metrics_log.may_be_best(line, self.metric)
            if may_be_best and (best is None or self._improves(value, best)):
                best, best_step, since = value, step, 0
                continue
            since += 1
            if since >= self.patience:
                return {**dataclasses.asdict(self), 'step': step, 'best': best, 'best_step': best_step}
        return None

    def _improves(self, value: float, best: float) -> bool:
        return value > best + self.min_delta if self.mode == 'max' else value < best - self.min_delta


def _of_one_training(evaluations: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of the training that goes on, by ascending steps. Where somebody has gone back to an earlier checkpoint,
    the evaluations of later steps are of a training that was given up."""
    lines: list[Mapping[str, Any]] = []
    for line in evaluations:
        if type(line.get('step')) is not int:  # somebody else's
            continue
        while lines and lines[-1]['step'] >= line['step']:
            lines.pop()
        lines.append(line)
    return lines


def rule_of(config: 'TrainerConfig', best_metric: str, best_mode: str | None) -> EarlyStopping | None:
    """The rule that the flags of a run say; None: never.

    Args:
        best_metric, best_mode: of the job.

    Raises:
        UsageError: nobody says whether lower or higher is better.
    """
    metric = config.stop_metric
    if not metric:
        return None
    mode = config.stop_mode or mode_of(metric, best_metric, best_mode)
    if mode is None:
        meant = nearest(metric, sorted({best_metric, *metric_names.KNOWN} - {''}))
        raise UsageError(
            f'--stop_metric={metric}{meant}: say whether lower or higher is better, by --stop_mode=min or '
            '--stop_mode=max.'
        )
    return EarlyStopping(metric, mode, config.stop_patience, config.stop_min_delta)


def mode_of(metric: str, best_metric: str, best_mode: str | None) -> str | None:
    """Whether lower ('min') or higher ('max') is better: as the job says, or the metric's name. None: not known."""
    return best_mode if metric == best_metric else metric_names.known_mode(metric)


def sentence(verdict: Mapping[str, Any]) -> str:
    """The decision in words."""
    if 'why' in verdict:  # of somebody outside
        return str(verdict['why'])
    rows = 'an evaluation' if verdict['patience'] == 1 else f'{verdict["patience"]} evaluations in a row'
    by = f' by more than {verdict["min_delta"]:g}' if verdict['min_delta'] else ''
    name = f'{verdict["metric"]} ({metric_names.better(verdict["mode"])})'
    if verdict.get('best') is None:
        return f'{name} was not a number in {rows}'
    return f'{name} has not improved{by} on {verdict["best"]:.4g} of step {verdict["best_step"]} in {rows}'


def _path(model_dir: str) -> str:
    return os.path.join(model_dir, file_names.STOP)


def decide(
    rule: EarlyStopping, evaluations: Iterable[Mapping[str, Any]], model_dir: str, data: str = ''
) -> dict[str, Any] | None:
    """Writes the verdict down, if it is to stop. Returns it.

    Args:
        data: what is evaluated on; '' for unknown.
    """
    verdict = rule.verdict(evaluations)
    if verdict:
        protocol.write_json(_path(model_dir), verdict | ({'data': data} if data else {}), durable=True)
    return verdict


def end_from_outside(rule: EarlyStopping, model_dir: str, step: int, why: str) -> None:
    """Ends the training of a run with `rule` as an evaluation does, for somebody who watches the run from outside."""
    verdict = {**dataclasses.asdict(rule), 'step': step, 'why': why}
    protocol.write_json(_path(model_dir), verdict, durable=True)


def remove_unfinished(model_dir: str) -> None:
    """Removes what a process that was killed within `decide` has left. Only who evaluates may."""
    protocol.remove_unfinished(_path(model_dir))


def decision(rule: EarlyStopping, model_dir: str, data: str = '') -> dict[str, Any] | None:
    """The verdict that it was decided to stop, by this very rule and on these files; None: it was not. `data`: as of
    `decide`. Its first part says which files; how much of them is evaluated depends on the process."""
    verdict = RunFolder(model_dir).stop
    same = all(verdict.get(name) == value for name, value in dataclasses.asdict(rule).items())
    before, now = (text.partition('/')[0] for text in (verdict.get('data') or '', data))
    return verdict if verdict and same and not (before and now and before != now) else None
