"""The tables of a page: what a run was given, what it ran on, its data, its exports. Pure."""

import contextlib
import os
import re
from typing import NamedTuple

from estimator_trainer.config import declaration
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.run_dir.listed_files import Export
from estimator_trainer.tools.report.run_files import RunFiles
from estimator_trainer.tools.reporting import in_words, number, whole

_OF_THE_PLACE = ('model_dir', 'dry_run', 'progress', 'param')  # the table of params has the last one
_TOP = ('strategy', 'global_batch_size', 'num_replicas', 'initial_replicas')
_FILES = {'files': 'training files', 'examples': 'training examples', 'shuffle': 'order'}


class Setting(NamedTuple):
    name: str
    value: str
    default: str
    changed: bool
    help: str


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
        flag, default, changed = declared.get(name), '–', True
        help_text = 'This version of the trainer has no such flag.'
        if flag is not None:
            changed = value != (list(flag.default) if isinstance(flag.default, tuple) else flag.default)
            default, help_text = flag.shown_default or 'none', flag.help
        if name not in _OF_THE_PLACE:
            every.append(Setting(f'--{name}', in_words(value), default, changed, help_text))
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
    flags, files = run.flags, run.config.get('files') if isinstance(run.config.get('files'), dict) else {}
    rows = [(f'--{name}', in_words(flags[name])) for name in ('train_files', 'eval_files') if flags.get(name)]
    if run.config.get('own_data'):
        rows = [('data', "the job's own")]
    elif not flags.get('train_files') and run.config.get('dataset'):
        rows.append(('data set', in_words(run.config['dataset'])))
    rows += [(name, in_words(files[key])) for key, name in _FILES.items() if key in files]
    step, batch, examples = run.last_step, run.config.get('global_batch_size'), files.get('examples')
    if type(step) is int and type(batch) is int:
        position, is_of_one_batch = _position(run, step, batch)
        steps = f'{step:,} step{"" if step == 1 else "s"}' + (f' of {batch:,}' if is_of_one_batch else '')
        epochs = f', {position / examples:.2f} epochs' if type(examples) is int and examples > 0 else ''
        rows.append(('position', f'{position:,} examples were trained ({steps}){epochs}'))
    bad = run.train.last('bad_examples')
    if bad:
        rows.append(('left out', f'{bad:,.0f} damaged examples, by the chief'))
    if rows and flags.get('seed') is not None:
        rows.append(('seed of the order', in_words(flags['seed'])))
    return rows


def _position(run: RunFiles, step: int, batch: int) -> tuple[int, bool]:
    """How many examples were trained before a step, and whether each step has had one batch of this size."""
    began, examples = 0, 0
    for part in run.config.get('batches') or ():  # as config_file.batches has them
        if isinstance(part, list) and len(part) == 3 and all(type(each) is int for each in part) and part[0] <= step:
            began, examples, batch = part
    return examples + (step - began) * batch, examples == began * batch


def best_in(run: RunFiles, export: Export) -> str:
    """What an export is the best in, if export/best is of it."""
    best = run.best
    if not (export.kind == 'best' and best.get('saved_model') == str(export.number) and best.get('metric')):
        return ''
    value = best['value'] if isinstance(best.get('value'), float) else None
    return f'{best["metric"]} {number(value)} at step {whole(best.get("step"))}'


def bytes_in(folder: str) -> int:
    """The size of all files in a folder."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # a better export may take its place now
                size += os.path.getsize(os.path.join(place, name))
    return size
