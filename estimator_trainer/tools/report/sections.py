"""The tables of a page: what a run was given, what it ran on, its data, its files. Pure."""

import contextlib
import os
import re
import urllib.parse
from typing import Any, NamedTuple

from estimator_trainer.config import declaration
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.tools.report.run_files import RunFiles
from estimator_trainer.tools.report.words import day, number, size, whole

_OF_THE_PLACE = ('model_dir', 'dry_run', 'progress', 'param')  # the table of params has the last one
_TOP = ('strategy', 'global_batch_size', 'num_replicas', 'initial_replicas')
_MOST_LOGS = 400
MOST_VARIABLES = 500  # in the table


class Setting(NamedTuple):
    name: str
    value: str
    default: str
    changed: bool
    help: str


class Link(NamedTuple):
    """A file or folder of the model_dir; `href` is relative to the page."""

    path: str
    href: str
    cells: tuple[str, ...] = ()


class WrongAnswers(NamedTuple):
    """Of a checkpoint, how many of the evaluated examples; `images` are (text, PNG in base64)."""

    step: int
    evaluated: int
    wrong: int
    images: tuple[tuple[str, str], ...]


def settings(run: RunFiles) -> list[Setting]:
    """Every flag of a run, those that differ from the default first."""
    declared = {flag.name: flag for flag in declaration.declared(TrainerConfig)}
    every = []
    for name, value in run.flags.items():
        flag = declared.get(name)
        if name in _OF_THE_PLACE:
            continue
        if flag is None:
            help_text = 'This version of the trainer has no such flag.'
            every.append(Setting(f'--{name}', in_words(value), '–', True, help_text))
            continue
        default = list(flag.default) if isinstance(flag.default, tuple) else flag.default
        default_text = flag.shown_default or 'none'
        every.append(Setting(f'--{name}', in_words(value), default_text, value != default, flag.help))
    return sorted(every, key=lambda each: not each.changed)


def params(run: RunFiles) -> list[tuple[str, str, bool]]:
    """Params of the job: name, value, and whether --param gave it."""
    given = {str(each).partition('=')[0] for each in run.flags.get('param') or ()}
    every = [(str(name), in_words(value), name in given) for name, value in run.params.items()]
    return sorted(every, key=lambda each: not each[2])


def wrong_answers(run: RunFiles) -> WrongAnswers | None:
    """The images that the last checkpoint took for another class; None where the run has not written them."""
    step, evaluated, wrong = (run.wrong_answers.get(name) for name in ('step', 'evaluated', 'wrong'))
    examples = run.wrong_answers.get('examples')
    if not (type(step) is type(evaluated) is type(wrong) is int and isinstance(examples, list)):
        return None
    images = []
    for each in examples:
        png = each.get('png') if isinstance(each, dict) else None
        if isinstance(png, str) and re.fullmatch('[A-Za-z0-9+/]+=*', png):
            certainty = each.get('probability')
            sure = f' ({certainty:.0%})' if isinstance(certainty, float) else ''
            images.append((f'{each.get("label")} taken for {each.get("answer")}{sure}', png))
    return WrongAnswers(step, evaluated, wrong, tuple(images))


def plan(run: RunFiles) -> list[tuple[str, str]]:
    """What followed from the flags: strategy, batch, tasks."""
    rows = [(name.replace('_', ' '), in_words(run.config[name])) for name in _TOP if name in run.config]
    cluster = run.config.get('cluster')
    if isinstance(cluster, dict) and cluster:
        tasks = ', '.join(f'{len(hosts)} x {role}' for role, hosts in cluster.items() if isinstance(hosts, list))
        rows.append(('tasks', tasks))
    return rows


def versions(run: RunFiles) -> list[tuple[str, str]]:
    """Packages, and the machine of the chief."""
    packages, machine = (run.config.get(part) for part in ('versions', 'machine'))
    rows = [(str(name), in_words(value)) for name, value in packages.items()] if isinstance(packages, dict) else []
    if isinstance(machine, dict):
        rows += [(str(name).replace('_', ' '), in_words(value)) for name, value in machine.items()]
    return rows


def data(run: RunFiles) -> list[tuple[str, str]]:
    """Data set or files, and the position in them."""
    files = run.config.get('files') if isinstance(run.config.get('files'), dict) else {}
    rows = [(f'--{name}', in_words(run.flags[name])) for name in ('train_files', 'eval_files') if run.flags.get(name)]
    if not run.flags.get('train_files') and run.config.get('dataset'):
        rows.append(('data set', in_words(run.config['dataset'])))
    names = {'files': 'training files', 'examples': 'training examples', 'shuffle': 'order'}
    rows += [(name, in_words(files[key])) for key, name in names.items() if key in files]
    step, batch, examples = run.last_step, run.config.get('global_batch_size'), files.get('examples')
    if type(step) is int and type(batch) is int:
        position = step * batch
        text = f'{position:,} examples were trained ({step:,} {"step" if step == 1 else "steps"} of {batch:,})'
        if type(examples) is int and examples > 0:
            text += f', {position / examples:.2f} epochs'
        rows.append(('position', text))
    bad = run.train.last('bad_examples')
    if bad:
        rows.append(('left out', f'{bad:,.0f} damaged examples, by the chief'))
    if rows and run.flags.get('seed') is not None:
        rows.append(('seed of the order', in_words(run.flags['seed'])))
    return rows


def checkpoints(run: RunFiles) -> list[tuple[str, str, str, str]]:
    """Name, step, size and time of each checkpoint that is there, newest first."""
    return [
        (f'damaged/{each.name}' if each.is_damaged else each.name, whole(each.step), size(each.bytes), day(each.time))
        for each in reversed(run.checkpoints)
    ]


def exports(run: RunFiles, base: str) -> list[Link]:
    """The exports, with what export/best is the best in.

    Args:
        base: the path from the page to the model_dir, or its URL; '' where the page lies in it.
    """
    links = []
    for each in run.exports:
        best = run.best if each.kind == 'best' and run.best.get('saved_model') == str(each.number) else {}
        value = best['value'] if isinstance(best.get('value'), float) else None
        what = f'{best["metric"]} {number(value)} at step {whole(best.get("step"))}' if best.get('metric') else ''
        links.append(Link(each.path, _href(base, each.path), (what, size(_bytes(run.file(each.path))), day(each.time))))
    return links


def logs(run: RunFiles, base: str) -> list[Link]:
    return [Link(each.path, _href(base, each.path), (size(each.bytes),)) for each in run.logs[-_MOST_LOGS:]]


def variables(run: RunFiles) -> list[tuple[str, ...]]:
    """Name, shape, type, size, partitions, and the size of the slots of each weight."""
    return [
        (
            each.variable.name,
            each.variable.shown_shape,
            each.variable.dtype,
            size(each.variable.bytes),
            str(each.variable.slices),
            f'{size(each.slot_bytes)} ({", ".join(each.slots)})' if each.slots else '',
        )
        for each in (run.table.weights[:MOST_VARIABLES] if run.table else ())
    ]


def in_words(value: Any) -> str:
    """A value of JSON as a flag would have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ', '.join(map(in_words, value)) or 'none'
    if isinstance(value, dict):
        return ', '.join(f'{name}={in_words(each)}' for name, each in value.items()) or 'none'
    return '–' if value in (None, '') else str(value)


def _bytes(folder: str) -> int:
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # a better export may take its place now
                size += os.path.getsize(os.path.join(place, name))
    return size


def _href(base: str, path: str) -> str:
    return urllib.parse.quote(f'{base}/{path}' if base else path, safe='/:')
