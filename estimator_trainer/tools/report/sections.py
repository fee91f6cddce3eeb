"""The tables of a page: what a run was told, what it ran on, its data, its files. Pure."""

import re
import urllib.parse
from typing import Any, NamedTuple

from estimator_trainer.config import declaration
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.tools.report.run_facts import RunFiles
from estimator_trainer.tools.report.words import day, number, size, whole

_OF_THE_PLACE = ('model_dir', 'dry_run', 'progress', 'param')  # the table of params has the last one
_TOP = ('strategy', 'global_batch_size', 'num_replicas', 'initial_replicas')
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
    found = []
    for name, value in run.flags.items():
        if name in _OF_THE_PLACE:
            continue
        flag = declared.get(name)
        if flag is None:
            found.append(Setting(f'--{name}', shown(value), '–', True, 'This version of the trainer has no such flag.'))
            continue
        default = list(flag.default) if isinstance(flag.default, tuple) else flag.default
        found.append(Setting(f'--{name}', shown(value), flag.shown_default or 'none', value != default, flag.help))
    return sorted(found, key=lambda each: not each.changed)


def params(run: RunFiles) -> list[tuple[str, str, bool]]:
    """Params of the job: name, value, and whether --param gave it."""
    told = run.config.get('params')
    given = {str(each).partition('=')[0] for each in run.flags.get('param') or ()}
    found = [
        (str(name), shown(value), name in given) for name, value in (told if isinstance(told, dict) else {}).items()
    ]
    return sorted(found, key=lambda each: not each[2])


def wrong_answers(run: RunFiles) -> WrongAnswers | None:
    """The images that the last checkpoint took for another class; None where the run has not written them."""
    step, evaluated, wrong = (run.wrong.get(name) for name in ('step', 'evaluated', 'wrong'))
    examples = run.wrong.get('examples')
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
    found = [(name.replace('_', ' '), shown(run.config[name])) for name in _TOP if name in run.config]
    cluster = run.config.get('cluster')
    if isinstance(cluster, dict) and cluster:
        tasks = ', '.join(f'{len(hosts)} x {role}' for role, hosts in cluster.items() if isinstance(hosts, list))
        found.append(('tasks', tasks))
    return found


def versions(run: RunFiles) -> list[tuple[str, str]]:
    """Packages, and the machine of the chief."""
    found: list[tuple[str, str]] = []
    for part in ('versions', 'machine'):
        told = run.config.get(part)
        if isinstance(told, dict):
            found += [
                (str(name).replace('_', ' ') if part == 'machine' else str(name), shown(value))
                for name, value in told.items()
            ]
    return found


def data(run: RunFiles) -> list[tuple[str, str]]:
    """Data set or files, and the position in them."""
    found, files = [], run.config.get('files')
    for name in ('train_files', 'eval_files'):
        if run.flags.get(name):
            found.append((f'--{name}', shown(run.flags[name])))
    if not run.flags.get('train_files') and run.config.get('dataset'):
        found.append(('data set', shown(run.config['dataset'])))
    examples = None
    if isinstance(files, dict):
        examples = files.get('examples')
        found += [
            (name, shown(files[key]))
            for key, name in (('files', 'training files'), ('examples', 'training examples'), ('shuffle', 'order'))
            if key in files
        ]
    step, batch = run.last_step, run.config.get('global_batch_size')
    if type(step) is int and type(batch) is int:
        position = step * batch
        text = f'{position:,} examples were trained ({step:,} {"step" if step == 1 else "steps"} of {batch:,})'
        if type(examples) is int and examples > 0:
            text += f', {position / examples:.2f} epochs'
        found.append(('position', text))
    bad = run.train.last('bad_examples')
    if bad:
        found.append(('left out', f'{bad:,.0f} damaged examples, by the chief'))
    if found and run.flags.get('seed') is not None:
        found.append(('seed of the order', shown(run.flags['seed'])))
    return found


def checkpoints(run: RunFiles) -> list[tuple[str, str, str, str]]:
    """Name, step, size and time of each checkpoint that is there, newest first."""
    return [
        (f'damaged/{each.name}' if each.damaged else each.name, whole(each.step), size(each.bytes), day(each.time))
        for each in reversed(run.checkpoints)
    ]


def exports(run: RunFiles, base: str) -> list[Link]:
    """`base`: the path from the page to the model_dir, or its URL; '' where the page lies in it."""
    found = []
    for each in run.exports:
        what = f'{each.metric} {number(each.value)} at step {whole(each.step)}' if each.metric else ''
        found.append(Link(each.path, _href(base, each.path), (what, size(each.bytes), day(each.time))))
    return found


def logs(run: RunFiles, base: str) -> list[Link]:
    return [Link(each.path, _href(base, each.path), (size(each.bytes),)) for each in run.logs]


def variables(run: RunFiles) -> list[tuple[str, ...]]:
    """Name, shape, type, size, partitions, and the size of the slots of each weight."""
    if run.table is None:
        return []
    return [
        (
            each.variable.name,
            each.variable.shown_shape,
            each.variable.dtype,
            size(each.variable.bytes),
            str(each.variable.slices),
            f'{size(each.slot_bytes)} ({", ".join(each.slots)})' if each.slots else '',
        )
        for each in run.table.weights[:MOST_VARIABLES]
    ]


def shown(value: Any) -> str:
    """A value of JSON as a flag would have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ', '.join(map(shown, value)) or 'none'
    if isinstance(value, dict):
        return ', '.join(f'{name}={shown(each)}' for name, each in value.items()) or 'none'
    if isinstance(value, int):
        return str(value)
    return '–' if value in (None, '') else str(value)


def _href(base: str, path: str) -> str:
    return urllib.parse.quote(f'{base}/{path}' if base else path, safe='/:')
