"""What a run says of the rule by which it stops early: when it does, and whether it can. Imports no TensorFlow."""

from collections.abc import Iterable, Mapping
from typing import Any

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.jobs import metric_names
from estimator_trainer.training import dues
from estimator_trainer.training.plan import Plan


def stop_rule(plan: Plan) -> str:
    """The rule of a plan that has one, how often it is looked at, and what the best export goes by if by another."""
    config, stop = plan.config, plan.stop_rule
    assert stop is not None
    least = f' by more than {config.stop_min_delta:g}' if config.stop_min_delta else ''
    in_a_row = f'{stop.patience} evaluation{"" if stop.patience == 1 else "s"} in a row'
    said = f'when {stop.metric} ({metric_names.better(stop.mode)}) has not improved{least} for {in_a_row}'
    saved = dues.save_rule(config)
    looks = f'each checkpoint is evaluated ({saved})'
    if plan.has_evaluator:
        looks = f'the evaluator evaluates each checkpoint that it can ({saved})'
    elif config.throttle_secs:
        looks = f'a checkpoint ({saved}) is evaluated at most every {config.throttle_secs} s'
    job = plan.job
    exports = job is not None and 'best' in config.export and not (job.input_fn and job.serving_input_fn is None)
    if job is None or not exports or job.best_metric == stop.metric:
        return f'{said}; {looks}'
    return f"{said}; {looks}; export/best goes by another metric, the job's best_metric {job.best_metric}"


def unused_flags(config: TrainerConfig) -> list[str]:
    """The flags of a rule that are given where there is none, each as 'name=value'."""
    given = {name: getattr(config, name) for name in ('stop_mode', 'stop_patience', 'stop_min_delta')}
    return [
        f'--{name}={value}'
        for name, value in given.items()
        if not config.stop_metric and value != getattr(TrainerConfig, name)
    ]


def stop_warning(plan: Plan, max_steps: int | None) -> str | None:
    """Why the rule cannot stop this run; None: it can, or nobody knows.

    Args:
        max_steps: where training ends; None: not known yet.
    """
    config, stop = plan.config, plan.stop_rule
    if stop is None:
        return None
    needed, least = stop.patience + 1, None  # the first one is the best so far
    every = dues.save_rule(config).steps
    if every and max_steps:
        least = (max_steps - 1) // every, f'--save_checkpoints_steps={every}', f'{max_steps:,} steps'
    if config.max_secs:
        waits = {'--save_checkpoints_secs': dues.save_rule(config).secs or 0}
        if not plan.has_evaluator:
            waits['--eval_throttle_secs'] = config.throttle_secs
        name, secs = max(waits.items(), key=lambda each: each[1])
        if secs and (least is None or config.max_secs // secs < least[0]):
            least = int(config.max_secs // secs), f'{name}={secs:g}', f'--max_secs={config.max_secs}'
    if least is None or least[0] >= needed:
        return None
    evaluations, flag, span = least
    return (
        f'--stop_metric={stop.metric} cannot end this run early: --stop_patience={stop.patience} needs {needed} '
        f'evaluations before the last step, and {flag} gives {evaluations} in {span}; lower one of them'
    )


def too_few_evaluations(plan: Plan, evaluations: Iterable[Mapping[str, Any]], max_steps: int) -> str | None:
    """Why the rule could not stop a run that has trained to its end; None: it could, or that was said at the start.

    Args:
        evaluations: lines of eval/metrics.jsonl.
    """
    stop = plan.stop_rule
    if stop is None or plan.has_evaluator or stop_warning(plan, max_steps):  # an evaluator may not be done yet
        return None
    made, needed = len({line['step'] for line in evaluations if stop.metric in line}), stop.patience + 1
    if made >= needed:
        return None
    return (
        f'--stop_metric={stop.metric} could not end this run early: --stop_patience={stop.patience} needs {needed} '
        f'evaluations, and there were {made}; save more often than {dues.save_rule(plan.config)}, by '
        '--save_checkpoints_steps or --save_checkpoints_secs, or lower --stop_patience'
    )
