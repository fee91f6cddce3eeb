"""Stop when a metric no longer improves: a function of the evaluations so far.

They are in `eval/metrics.jsonl`, which a restart continues, and so does the patience. Whoever
evaluates decides, once, and writes `eval/stop.json`; the chief reads it.
"""

import dataclasses
import os

from estimator_trainer.run_dir import protocol


@dataclasses.dataclass(frozen=True)
class Rule:
    """`patience`: evaluations in a row without an improvement of more than `min_delta`."""

    metric: str
    mode: str  # 'min' or 'max'
    patience: int
    min_delta: float = 0.0

    def verdict(self, evaluations) -> dict | None:
        """Why training should stop, or None.

        Args:
            evaluations: lines of eval/metrics.jsonl, oldest first; of several of one step the last
                one counts.

        Raises:
            ValueError: an evaluation lacks the metric.
        """
        by_step = {line['step']: line for line in evaluations}
        best, best_step, since = None, None, 0
        for step in sorted(by_step):
            line = by_step[step]
            if self.metric not in line:
                names = sorted(set(line) - {'kind', 'step', 'time'})
                raise ValueError(
                    f'--stop_metric={self.metric}: the evaluation does not give it; it has {", ".join(names)}.'
                )
            value = line[self.metric]
            if value is not None and (best is None or self._improves(value, best)):
                best, best_step, since = value, step, 0
                continue
            since += 1
            if since >= self.patience:
                return {**dataclasses.asdict(self), 'step': step, 'best': best, 'best_step': best_step}
        return None

    def _improves(self, value, best) -> bool:
        return value > best + self.min_delta if self.mode == 'max' else value < best - self.min_delta


def rule_of(config) -> Rule | None:
    """The rule that the flags of a run say; None: never."""
    if not config.stop_metric:
        return None
    return Rule(config.stop_metric, config.stop_mode, config.stop_patience, config.stop_min_delta)


def _path(model_dir) -> str:
    return os.path.join(model_dir, 'eval', 'stop.json')


def decide(rule: Rule, evaluations, model_dir) -> dict | None:
    """Writes the verdict down, if it is to stop. Returns it."""
    verdict = rule.verdict(evaluations)
    if verdict:
        protocol.write_json(_path(model_dir), verdict)
    return verdict


def end_from_outside(rule: Rule, model_dir, step: int, why: str) -> None:
    """Ends the training of a run with `rule` as an evaluation does, for somebody who watches the run from outside."""
    verdict = {**dataclasses.asdict(rule), 'step': step, 'why': why}
    protocol.write_json(_path(model_dir), verdict)


def remove_unfinished(model_dir) -> None:
    """Removes what a process that was killed within `decide` has left. Only who evaluates may."""
    protocol.remove_unfinished(_path(model_dir))


def decided(rule: Rule, model_dir) -> bool:
    """Whether it was decided to stop, by this very rule."""
    verdict = protocol.read_json(_path(model_dir))
    return bool(verdict) and all(verdict.get(name) == value for name, value in dataclasses.asdict(rule).items())
