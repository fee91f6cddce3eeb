"""A run in one sentence and a few numbers. Pure."""

from typing import NamedTuple

from estimator_trainer.tools.report import run_verdict, spans, times
from estimator_trainer.tools.report.curves import Log
from estimator_trainer.tools.report.run_facts import RunFiles
from estimator_trainer.tools.report.series import Points
from estimator_trainer.tools.report.words import duration, number, whole

_MOST_METRICS = 6  # as numbers at the head of the page
_LAST = ('loss', 'average_loss', 'global_step')  # after those that say more of a model


class Tile(NamedTuple):
    label: str
    value: str
    note: str = ''


def judge(run: RunFiles) -> run_verdict.Verdict:
    return run_verdict.of(run.training, run.status, run.report, run.alive, run.read_at, run.stop)


def main_evaluations(run: RunFiles) -> Log | None:
    """The evaluations that the page shows first: those in eval/, else those with the most lines."""
    if 'eval' in run.evaluations:
        return run.evaluations['eval']
    return max(run.evaluations.values(), key=len, default=None)


def metrics(log: Log | None) -> list[str]:
    """The metrics of evaluations, the telling ones first."""
    if log is None:
        return []
    names = [name for name, series in log.series.items() if len(series) and name != 'global_step']
    return sorted(names, key=lambda name: (name in _LAST, name))


def seconds(run: RunFiles) -> float | None:
    """How long the run took, or has taken, from its first start."""
    whole = spans.wall(run)
    return whole[1] - whole[0] if whole else None


def seconds_in_starts(run: RunFiles) -> float | None:
    """The same without the time between the end of a start and the next one."""
    found = spans.windows(run)
    return sum(each.ended - each.began for each in found) if found else seconds(run)


def starts(run: RunFiles) -> int:
    """How often the run was started, as far as is known. Of very many starts, only the newest have their times."""
    gangs = run.gang_starts
    return len(spans.windows(run)) + (gangs[0]['start'] - 1 if gangs else 0)


def speed(run: RunFiles) -> float | None:
    """The median examples/s of the curve: the last value alone may be of a pause."""
    series = run.train.series.get('examples_per_sec')
    if series and len(series):
        return median(series.points())
    pace, batch = times.secs_per_step(run), run.config.get('global_batch_size')
    return batch / pace if pace and type(batch) is int else None


def median(points: Points) -> float:
    ordered = sorted(points.values.tolist())
    return ordered[len(ordered) // 2]


def best(run: RunFiles, name: str) -> tuple[float, int] | None:
    """The best value of a metric of the evaluations and its step, as export/best goes by it."""
    if run.best.get('metric') == name and type(run.best.get('value')) is float:
        return run.best['value'], run.best.get('step') or 0
    return None


def tiles(run: RunFiles) -> list[Tile]:
    """The numbers at the head of the page."""
    most = run.training.get('max_steps')
    found = [Tile('step', whole(run.last_step), f'of {most:,}' if type(most) is int else '')]
    evaluations = main_evaluations(run)
    for name in metrics(evaluations)[:_MOST_METRICS]:
        top, (step, value) = best(run, name), evaluations.series[name].last
        note = f'evaluation at step {step:,}'
        if top and top[1] != step:
            note += f'; best {number(top[0])} at step {top[1]:,}'
        found.append(Tile(name, number(value), note))
    loss = run.train.last('loss')
    if loss is not None:
        found.append(Tile('loss of training', number(loss), 'of the last report'))
    rate = speed(run)
    if rate:
        found.append(
            Tile('examples/s', number(float(round(rate))) if rate >= 10 else number(rate), 'median of the reports')
        )
    took, count = seconds(run), starts(run)
    if took is not None:
        at_work = f'; {duration(seconds_in_starts(run) or 0)} of it in {count} starts' if count > 1 else ''
        found.append(Tile('time', duration(took), f'from the first start{at_work}'))
    told = [start['restarts'] for start in run.gang_starts if type(start.get('restarts')) is int]
    alone = sum(1 for attempt in run.attempts for task in attempt.get('tasks') or () if task.get('life', 1) > 1)
    if told:
        of_all = f'of all tasks, in {count} starts' if count > 1 else 'of all tasks'
        found.append(Tile('restarts', str(sum(told)), f'{of_all}; {alone} of single ones' if alone else of_all))
    return found
