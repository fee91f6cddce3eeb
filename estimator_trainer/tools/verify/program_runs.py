"""The runs of a program: which there are, and how each one is started."""

import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Mapping

from estimator_trainer import compat
from estimator_trainer.compat.tf1_names import version_rule
from estimator_trainer.run_dir import removal
from estimator_trainer.tools import bounded
from estimator_trainer.tools.verify.interpreters import Interpreter

EVENTS = 'events.jsonl'
PERTURB = 1e-6  # relative change of each initial weight: some units in the last place of float32
MODEL_DIR = '{model_dir}'  # in the arguments of the program
_VARIABLE = 'ESTIMATOR_TRAINER_VERIFY'
_NOW = 'now'  # the folder of the run that is going on: all have one path, which a program may use
_COMPAT = pathlib.Path(__file__).parents[2] / 'compat'

# What the environment fixes unless it says otherwise already.
FIXED = {
    'PYTHONHASHSEED': '0',
    'TF_DETERMINISTIC_OPS': '1',
    'TF_ENABLE_ONEDNN_OPTS': '0',  # its arithmetic is not the same in all versions of TensorFlow
    'TF_NUM_INTRAOP_THREADS': '1',
    'TF_NUM_INTEROP_THREADS': '1',
    'TF_CPP_MIN_LOG_LEVEL': '2',
}


@dataclasses.dataclass(frozen=True)
class Side:
    """A program in an environment.

    Attributes:
        name: 'from' or 'to'.
        program: what follows `python`: a file, or `-m` and a module.
        arguments: of the program; MODEL_DIR stands for a folder of the run.
        tf1: the program is of TensorFlow 1.
    """

    name: str
    interpreter: Interpreter
    program: tuple[str, ...]
    arguments: tuple[str, ...]
    tf1: bool = False


@dataclasses.dataclass(frozen=True)
class ProgramRun:
    """One run. `after`: the name of the run whose checkpoints it continues."""

    name: str
    side: Side
    says: str
    perturb: float = 0
    after: str = ''


FROM, TO, AGAIN, ROUNDED = 'from', 'to', 'again', 'rounded'
FROM_FROM, FROM_TO, TO_TO, TO_FROM = 'from-from', 'from-to', 'to-to', 'to-from'


def plan(one: Side, other: Side, continued: bool) -> list[ProgramRun]:
    """The runs of a comparison, those first that may fail."""
    found = [
        ProgramRun(FROM, one, '--from'),
        ProgramRun(TO, other, '--to'),
        ProgramRun(AGAIN, one, '--from, once more'),
        ProgramRun(ROUNDED, one, f'--from, with initial weights changed by up to {PERTURB:g}', perturb=PERTURB),
    ]
    if continued:
        found += [
            ProgramRun(FROM_FROM, one, '--from, continued in --from', after=FROM),
            ProgramRun(FROM_TO, other, '--from, continued in --to', after=FROM),
            ProgramRun(TO_TO, other, '--to, continued in --to', after=TO),
            ProgramRun(TO_FROM, one, '--to, continued in --from', after=TO),
        ]
    return found


def start(run: ProgramRun, folder: str, settings: Mapping, timeout_secs: float, keeps_files: bool = True) -> str:
    """Runs the program once; returns the folder `folder/NAME` with what was recorded, the log and the files.

    Args:
        settings: of the recorder: steps, every, examples, eval_steps, seed.
        keeps_files: keeps the files of the program, such as checkpoints.

    Raises:
        RunFailed: the program failed, was too slow, or no Estimator of it made a step.
    """
    now = os.path.join(folder, _NOW)
    os.mkdir(now)
    files = os.path.join(now, 'files')
    if run.after:
        shutil.copytree(os.path.join(folder, run.after, 'files'), files, symlinks=True)
    os.makedirs(os.path.join(files, 'model'), exist_ok=True)
    settings_path = os.path.join(now, 'settings.json')
    with open(settings_path, 'w', encoding='utf-8') as file:
        json.dump({**settings, 'folder': now, 'perturb': run.perturb}, file)
    arguments = [each.replace(MODEL_DIR, os.path.join(files, 'model')) for each in run.side.arguments]
    command = [run.side.interpreter.path, *run.side.program, *arguments]
    log = os.path.join(now, 'log')
    environ = environment(os.environ, run.side.interpreter, settings_path, run.side.tf1)
    bounded.run(run.says, command, log, timeout_secs, environ)
    if not run.after and not _has_steps(os.path.join(now, EVENTS)):
        raise bounded.RunFailed(
            f'{run.says}: the program ended, and no Estimator made a step. `verify` compares programs that call '
            f'Estimator.train or tf.estimator.train_and_evaluate.\n{bounded.tail(log)}'
        )
    if not keeps_files:
        removal.tree(files, removal.Written([files]))
    to = os.path.join(folder, run.name)
    os.rename(now, to)
    return to


def environment(
    inherited: Mapping[str, str], interpreter: Interpreter, settings_path: str, tf1: bool = False
) -> dict[str, str]:
    """The environment of the program: the recorder, and compat where the interpreter needs it.

    `tf1`: the program is of TensorFlow 1, whose names compat gives it where TensorFlow is later.
    """
    path, switches = [str(_COMPAT / 'recorder')], {}
    if interpreter.by_compat(tf1):
        path.append(str(_COMPAT / 'child'))
        switches = {compat.TF1_VARIABLE: str(version_rule.VersionRule())} if tf1 else {}
    path += [each for each in inherited.get('PYTHONPATH', '').split(os.pathsep) if each]
    kept = {name: value for name, value in inherited.items() if name != 'TF_USE_LEGACY_KERAS'}
    return {**FIXED, **kept, **switches, 'PYTHONPATH': os.pathsep.join(path), _VARIABLE: settings_path}


def _has_steps(path: str) -> bool:
    try:
        with open(path, encoding='utf-8') as file:
            return any('"kind": "step"' in line for line in file)
    except FileNotFoundError:
        return False
