"""A run in a few numbers. Pure."""

from typing import NamedTuple

from estimator_trainer.run_dir.protocol import objects
from estimator_trainer.tools.report import spans, times
from estimator_trainer.tools.report.curves import Log
from estimator_trainer.tools.report.run_files import RunFiles
from estimator_trainer.tools.report.words import duration, number, whole

_MOST_METRICS = 6  # as numbers at the head of the page
_LAST = ('loss', 'average_loss', 'global_step')  # after those that say more of a model


class Tile(NamedTuple):
    label: str
    value: str
    note: str = ''


def main_evaluations(run: RunFiles) -> Log | None:
    """The evaluations that the page shows first: those in eval/, else those with the most lines."""
    return run.evaluations.get('eval') or max(run.evaluations.values(), key=len, default=None)


def metrics(log: Log | None) -> list[str]:
    """The metrics of evaluations, the telling ones first."""
    names = [name for name, series in log.series.items() if len(series) and name != 'global_step'] if log else []
    return sorted(names, key=lambda name: (name in _LAST, name))


def seconds(run: RunFiles) -> float | None:
    """How long the run took, or has taken, from its first start."""
    wall = spans.wall(run)
    return wall.ended - wall.began if wall else None


def seconds_in_starts(run: RunFiles) -> float | None:
    """How long the run took, without the time between the end of a start and the next one."""
    windows = spans.windows(run)
    return sum(each.ended - each.began for each in windows) if windows else seconds(run)


def starts(run: RunFiles) -> int:
    """How often the run was started, as far as is known. Of very many starts, only the newest have their times."""
    return len(spans.windows(run)) + (run.starts[0]['start'] - 1 if run.starts else 0)


def speed(run: RunFiles) -> float | None:
    """The median examples/s of the curve: the last value alone may be that of a pause."""
    series = run.train.series.get('examples_per_sec')
    if series and len(series):
        rates = sorted(series.points().values.tolist())
        return rates[len(rates) // 2]
    secs, batch = times.secs_per_step(run), run.config.get('global_batch_size')
    return batch / secs if secs and type(batch) is int else None


def rate_in_words(rate: float) -> str:
    return number(float(round(rate))) if rate >= 10 else number(rate)


def tiles(run: RunFiles) -> list[Tile]:
    """The numbers at the head of the page."""
    most = run.training.get('max_steps')
    every = [Tile('step', whole(run.last_step), f'of {most:,}' if type(most) is int else '')]
    evaluations = main_evaluations(run)
    for name in metrics(evaluations)[:_MOST_METRICS]:
        step, value = evaluations.series[name].last
        note = f'evaluation at step {step:,}'
        if run.best.get('metric') == name and type(run.best.get('value')) is float:  # as export/best goes by it
            best_step = run.best.get('step') or 0
            note += f'; best {number(run.best["value"])} at step {best_step:,}' if best_step != step else ''
        every.append(Tile(name, number(value), note))
    loss = run.train.last('loss')
    if loss is not None:
        every.append(Tile('loss of training', number(loss), 'of the last report'))
    rate = speed(run)
    if rate:
        every.append(Tile('examples/s', rate_in_words(rate), 'median of the reports'))
    took, count = seconds(run), starts(run)
    if took is not None:
        at_work = f'; {duration(seconds_in_starts(run) or 0)} of it in {count} starts' if count > 1 else ''
        every.append(Tile('time', duration(took), f'from the first start{at_work}'))
    restarts = [start['restarts'] for start in run.starts if type(start.get('restarts')) is int]
    alone = sum(task.get('life', 1) > 1 for attempt in run.attempts for task in objects(attempt.get('tasks')))
    if restarts:
        note = f'of all tasks, in {count} starts' if count > 1 else 'of all tasks'
        every.append(Tile('restarts', str(sum(restarts)), f'{note}; {alone} of single ones' if alone else note))
    return every
