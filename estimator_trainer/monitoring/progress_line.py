"""How a run goes, in words that fit a width: for the last line of a cluster's terminal, and for `status`. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from estimator_trainer.run_dir import status_file as states
from estimator_trainer.run_dir import training_file
from estimator_trainer.this_process.log import duration, number

_IS = {'failed': 'has failed', 'stopped': 'was stopped'}
_AHEAD_SECS = 2 * training_file.BEAT_SECS  # that training.json may be behind metrics.jsonl
_HEAD, _STEPS, _TASKS = range(3)  # groups
LATER = _TASKS + 1  # the first group that is free for others


class LinePart(NamedTuple):
    """Some words of a line. Where the line is too long, those of the least worth are left out.

    Attributes:
        group: parts of one group have a comma between them, and groups a semicolon.
    """

    text: str
    worth: int
    group: int


def head(text: str, state: str) -> LinePart:
    """What the run does, which says more than its numbers unless it trains."""
    return LinePart(text, 3 if state == states.TRAINING else 10, _HEAD)


def steps(training: Mapping, last: Mapping, secs_left: float | None = None, runs: bool = True) -> list[LinePart]:
    """Step, loss, speed and time left. The step and the speed are of one record, the newest.

    Args:
        training: step, max_steps, examples_per_sec and time, as in training.json or status.json.
        last: the last line of metrics.jsonl, {} without one. It may be newer than `training`; a step that is ahead and
            was reported before is of an earlier attempt.
        secs_left: of training; None: nobody knows.
        runs: whether the run trains now, or may: otherwise it has no speed.
    """
    reported, newest = _whole(last.get('step')), training
    step = _whole(training.get('step'))
    if reported is not None and (step is None or (reported > step and _is_news(last, training))):
        step, newest = reported, last
    if step is None:
        return []
    most = _whole(training.get('max_steps')) or 0
    parts = [LinePart(f'step {step:,} of {most:,}' if most > 0 else f'step {step:,}', 9, _STEPS)]
    if most > 0:
        parts.append(LinePart(f'({min(100, 100 * step // most)} %)', 5, _STEPS))
    if type(last.get('loss')) is float and reported is not None and reported <= step:
        parts.append(LinePart(f'loss {number(last["loss"])}', 6, _STEPS))
    rate = _real(newest.get('examples_per_sec'))
    if runs and rate:
        parts.append(LinePart(f'{number(float(round(rate))) if rate >= 10 else number(rate)} examples/s', 1, _STEPS))
    if runs and secs_left is not None:
        parts.append(LinePart(f'{duration(secs_left)} left', 8, _STEPS))
    return parts


def _is_news(last: Mapping, training: Mapping) -> bool:
    reported_at, written_at = _real(last.get('time')), _real(training.get('time'))
    return reported_at is not None and written_at is not None and reported_at >= written_at - _AHEAD_SECS


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None


def _real(value: Any) -> float | None:
    return value if type(value) in (int, float) else None


def tasks(entries: Iterable[Any] | None, count: Any, start: Any = None, alone: Any = None) -> list[LinePart]:
    """How many tasks are alive, what the others are, how often all were restarted, and how often single ones.

    Args:
        entries: `tasks` of status.json; None: that is not known.
        count, start, alone: `restarts`, `start` and `task_restarts` of it.
    """
    parts = []
    if entries is not None:
        known = [task for task in entries if isinstance(task, Mapping)]
        away = [task for task in known if task.get('state') != 'running']
        parts.append(LinePart(f'{len(known) - len(away)} of {len(known)} tasks alive', 4, _TASKS))
        if away:
            words = (
                f'{task.get("name")} {_IS.get(str(task.get("state"))) or "is " + str(task.get("state"))}'
                for task in away
            )
            parts.append(LinePart(f'({", ".join(words)})', 2, _TASKS))
    if type(start) is int and start > 1:
        parts.append(LinePart(f'start {start}', 1, _TASKS))
    if type(count) is int:
        parts += restarts(count, alone if type(alone) is int else 0)
    return parts


def ended(starts: int, count: int, alone: int = 0) -> list[LinePart]:
    """How often a run that has ended was started, how often all of its tasks were restarted, and single ones."""
    parts = [LinePart(f'{starts} starts', 1, _TASKS)] if starts > 1 else []
    return [*parts, *restarts(count, alone)] if count or alone or starts > 1 else []


def restarts(count: int, alone: int = 0) -> list[LinePart]:
    """Restarts of all tasks, and of single ones if there were any."""
    parts = [LinePart(f'{count} {"restart" if count == 1 else "restarts"}', 4 if count else 0, _TASKS)]
    of_single = 'restart of a single task' if alone == 1 else 'restarts of single tasks'
    return [*parts, *([LinePart(f'{alone} {of_single}', 3, _TASKS)] if alone else [])]


def cluster_line(status: Mapping, last: Mapping) -> list[LinePart]:
    """The last line of a cluster's terminal; [] where the run is over.

    Args:
        status: as in status.json.
        last: the last line of metrics.jsonl, {} without one.
    """
    state = status['state']
    if state not in states.DOING:
        return []
    trains, waits = state == states.TRAINING, state == states.BACKING_OFF
    return [
        head(states.DOING[state], state),
        *(steps(status, last, status['secs_left'], runs=trains) if status['step'] is not None else ()),
        *tasks(
            None if waits else status['tasks'], *(status.get(name) for name in ('restarts', 'start', 'task_restarts'))
        ),
    ]


def joined(parts: Sequence[LinePart], width: int | None = None) -> str:
    """The line, of at most `width` characters."""
    kept = list(parts)
    while width is not None and len(kept) > 1 and len(_joined(kept)) > width:
        kept.remove(min(kept, key=lambda part: part.worth))
    return _joined(kept)[:width]


def _joined(parts: Sequence[LinePart]) -> str:
    text = ''
    for before, part in zip((None, *parts), parts):
        if before is None:
            between = ''
        elif part.text.startswith('('):
            between = ' '
        elif before.group == part.group:
            between = ', '
        else:
            between = ': ' if before.group == _HEAD else '; '
        text += between + part.text
    return text
