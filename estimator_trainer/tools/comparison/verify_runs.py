"""The runs of `verify`: the two environments, which runs there are, and how each one is started."""

import json
import os
import pathlib
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from estimator_trainer import compat
from estimator_trainer.compat.tf1_names import version_rule
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import removal
from estimator_trainer.this_process.child_process import DEVNULL, PIPE, Child, TookTooLong
from estimator_trainer.tools import bounded
from estimator_trainer.tools.assess import old_names

FROM, TO, AGAIN, ROUNDED = 'from', 'to', 'again', 'rounded'  # names of runs; the first two are those of the sides
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

_ASK = """
import importlib.metadata, json, platform
def version(*names):
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
print(json.dumps({
    'python': platform.python_version(),
    'tensorflow': version(
        'tensorflow', 'tensorflow-cpu', 'tf-nightly', 'tf-nightly-cpu', 'tensorflow-macos', 'intel-tensorflow'),
    'tensorflow-estimator': version('tensorflow-estimator'),
    'tf-keras': version('tf-keras', 'tf-keras-nightly'),
    'numpy': version('numpy'),
}))
"""
_ASK_SECS = 60
_LAST_WITH_ESTIMATORS = (2, 15)
_OLDEST_OF_COMPAT = (3, 10)  # Python


class Interpreter(NamedTuple):
    """An interpreter: its path, and the versions of what is installed there."""

    path: str
    versions: dict

    @property
    def needs_compat(self) -> bool:
        """Whether its TensorFlow has no tf.estimator of its own."""
        return _numbers(self.versions['tensorflow']) > _LAST_WITH_ESTIMATORS

    def by_compat(self, tf1: bool) -> bool:
        """Whether `compat` takes part in a program there. `tf1`: the program is of TensorFlow 1."""
        return self.needs_compat or tf1 and _numbers(self.versions['tensorflow']) >= (2,)

    @property
    def short(self) -> str:
        return f'TensorFlow {self.versions["tensorflow"]}'

    @property
    def described(self) -> str:
        return ', '.join(f'{name} {version}' for name, version in self.versions.items() if version)


class Side(NamedTuple):
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


class ProgramRun(NamedTuple):
    """One run. `after`: the name of the run whose checkpoints it continues."""

    name: str
    side: Side
    says: str
    perturb: float = 0
    after: str = ''


def sides(values, program: tuple[str, ...], arguments: tuple[str, ...], tf_config: str | None) -> tuple[Side, Side]:
    """The sides of --from and --to.

    Args:
        values: the flags of verify.
        program, arguments: what follows `python`.

    Raises:
        UsageError: a Python cannot be used, or the environment names a cluster.
    """
    _refuse_cluster(tf_config)
    try:
        to_arguments = tuple(shlex.split(values.to_args)) if values.to_args else arguments
    except ValueError as error:
        raise UsageError(f'--to_args={values.to_args}: {error}; write it as for a shell.') from error
    to_tf1 = values.tf1 if values.to_tf1 is None else values.to_tf1
    one = ask('from', values.from_ or sys.executable, values.tf1)
    other = ask('to', values.to or sys.executable, to_tf1)
    to_program = (values.to_program,) if values.to_program else program
    return Side('from', one, program, arguments, values.tf1), Side('to', other, to_program, to_arguments, to_tf1)


def _refuse_cluster(tf_config: str | None) -> None:
    try:
        cluster = json.loads(tf_config or '{}').get('cluster') or {}
        tasks = sum(len(tasks) for tasks in cluster.values())
    except (ValueError, AttributeError, TypeError) as error:
        raise UsageError(f'TF_CONFIG: cannot be read ({error}); correct it, or unset it.') from error
    if tasks > 1:
        raise UsageError(f'TF_CONFIG: names a cluster of {tasks} tasks, and verify runs one process; unset TF_CONFIG.')


def ask(flag: str, path: str, tf1: bool = False) -> Interpreter:
    """Asks an interpreter what it has.

    Args:
        flag: that names it, for the message.
        tf1: a program of TensorFlow 1 is to run there.

    Raises:
        UsageError: there is no such interpreter, or Estimators cannot work with it.
    """
    found = shutil.which(path)
    if found is None:
        raise UsageError(f'--{flag}={path}: there is no such program; name the python of an environment.')
    environ = {name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}
    try:
        with Child([found, '-c', _ASK], env=environ, stdout=PIPE, stderr=DEVNULL) as child:
            said = child.finish(_ASK_SECS).out.decode()
        interpreter = Interpreter(found, json.loads(said.strip().splitlines()[-1]))
    except (OSError, TookTooLong, ValueError, IndexError) as error:
        raise UsageError(f'--{flag}={path}: is not a Python of version 3.8 or later ({error}).') from error
    check(flag, interpreter, tf1)
    return interpreter


def check(flag: str, interpreter: Interpreter, tf1: bool = False) -> None:
    """Raises UsageError as `ask`."""
    path, versions = interpreter
    if not versions['tensorflow']:
        raise UsageError(f'--{flag}={path}: TensorFlow is not installed there: {path} -m pip install tensorflow')
    wanted = ['tensorflow-estimator==2.15.*'] if not versions['tensorflow-estimator'] else []
    if interpreter.needs_compat and not versions['tf-keras']:
        minor = '.'.join(versions['tensorflow'].split('.')[:2])
        wanted.append(f'tf-keras=={minor}.*')
    if wanted:
        packages = ' '.join(f"'{package}'" for package in wanted)
        raise UsageError(f'--{flag}={path}: Estimators miss a package there: {path} -m pip install {packages}')
    if interpreter.by_compat(tf1) and _numbers(versions['python']) < _OLDEST_OF_COMPAT:
        if interpreter.needs_compat:
            raise UsageError(f'--{flag}={path}: Estimators work with {interpreter.short} from Python 3.10 on.')
        raise UsageError(f'--{flag}={path}: --tf1 needs Python 3.10 or later there, and it is {versions["python"]}.')


def _numbers(version) -> tuple:
    return tuple(int(part) for part in version.split('.')[:2])


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
            ProgramRun(
                continuing(begun.name, side.name), side, f'--{begun.name}, continued in --{side.name}', after=begun.name
            )
            for begun, side in ((one, one), (one, other), (other, other), (other, one))
        ]
    return found


def continuing(begun: str, side: str) -> str:
    """The name of the run that continues another one on a side."""
    return f'{begun}-{side}'


def start(run: ProgramRun, folder: str, settings: Mapping, timeout_secs: float, keeps_files: bool = True) -> None:
    """Runs the program once. The folder `folder/NAME` has what was recorded, the log and the files.

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
    try:
        bounded.run(run.says, command, log, timeout_secs, environ)
    except bounded.RunFailed as error:
        raise bounded.RunFailed('\n'.join([str(error), *_advice(run.side)])) from None
    if not run.after and not _has_steps(now):
        raise bounded.RunFailed(
            f'{run.says}: the program ended, and no Estimator made a step. `verify` compares programs that call '
            f'Estimator.train or tf.estimator.train_and_evaluate.\n{bounded.tail(log)}'
        )
    if not keeps_files:
        removal.tree(files, removal.Written([files]))
    os.rename(now, os.path.join(folder, run.name))


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
    if given := inherited.get('PYTHONPATH'):
        path += given.split(os.pathsep)  # an empty entry is the current folder
    kept = {name: value for name, value in inherited.items() if name != 'TF_USE_LEGACY_KERAS'}
    return {**FIXED, **kept, **switches, 'PYTHONPATH': os.pathsep.join(path), _VARIABLE: settings_path}


def _advice(side: Side) -> Iterator[str]:
    """What may help where the program of a side has failed."""
    if not side.tf1 and len(side.program) == 1:  # not of `-m`
        flag = '--tf1' if side.name == 'from' else '--to_tf1'
        for name in old_names.first(side.program[0]):
            yield f'{side.program[0]} uses names of TensorFlow 1, such as {name}: give {flag}.'


def _has_steps(folder: str) -> bool:
    from estimator_trainer.compat.recorder.estimator_recorder import recording  # NumPy

    path = os.path.join(folder, recording.EVENTS)
    if not os.path.exists(path):
        return False
    with open(path, encoding='utf-8') as file:
        return any('"kind": "step"' in line for line in file)
