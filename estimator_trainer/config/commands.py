"""The commands of `python -m estimator_trainer`. A command's module is imported when the command runs."""

import importlib
import platform
from collections.abc import Callable, Sequence
from typing import NamedTuple

from estimator_trainer import __version__
from estimator_trainer.errors import nearest


class Command(NamedTuple):
    """A command: `module` has a function `main`, which takes the arguments that are left for the command and returns an
    exit code. The `main` of `train` takes the program's name before them."""

    module: str
    summary: str


TRAIN = 'train'
COMMANDS = {
    TRAIN: Command('estimator_trainer.main', 'trains, evaluates and exports a job; you may leave the word out'),
    'cluster': Command(
        'estimator_trainer.supervisor.cluster_command',
        'runs several tasks on this machine, and restarts them when one fails',
    ),
    'submit': Command(
        'estimator_trainer.submit.submit_command',
        'writes what Slurm, Kubernetes or Ray needs to run a job, and submits it',
    ),
    'parity': Command(
        'estimator_trainer.tools.parity.parity_command',
        'trains a job with every loop, and compares the weights of each step',
    ),
    'migrate': Command(
        'estimator_trainer.tools.migrate.migrate_command',
        "turns an Estimator's checkpoint into Keras's files, and back",
    ),
    'predict': Command(
        'estimator_trainer.tools.predict.predict_command', 'predicts every example of files with an exported model'
    ),
    'evaluate': Command(
        'estimator_trainer.tools.finished.evaluate', 'evaluates a checkpoint of a run, and prints its metrics as JSON'
    ),
    'export': Command(
        'estimator_trainer.tools.finished.export', 'writes a SavedModel of a checkpoint of a run, and prints its path'
    ),
    'assess': Command(
        'estimator_trainer.tools.assess.assess_command',
        'reads programs, and says what runs here, what blocks, and what becomes of it in Keras 3',
    ),
    'verify': Command(
        'estimator_trainer.tools.verify.verify_command',
        'trains a program in two environments, and says whether and where they compute something else',
    ),
    'inspect': Command(
        'estimator_trainer.tools.inspection.inspect_command',
        'says what a model_dir or a SavedModel is, without its program, and what can be done with it',
    ),
    'sweep': Command(
        'estimator_trainer.tools.sweep.sweep_command',
        'trains a job with other params in each trial, and names the best one',
    ),
    'report': Command(
        'estimator_trainer.tools.report.report_command',
        'writes a page of a run: curves, what happened, where the time went; or of several runs compared',
    ),
    'status': Command(
        'estimator_trainer.tools.status.status_command',
        'says in one line how a run is, or how it ended; --follow says it again',
    ),
    'track': Command(
        'estimator_trainer.tools.track.track_command',
        'sends a run to MLflow, Weights & Biases or the HParams of TensorBoard: what was not sent yet',
    ),
    'doctor': Command(
        'estimator_trainer.tools.doctor', 'says whether Estimators work with the packages installed here'
    ),
}
PROGRAMS = {'tf_config': 'python -m tf_config', 'compat': 'python -m estimator_trainer.compat'}  # beside the commands


def split(argv: Sequence[str]) -> tuple[str, list[str]]:
    """The command that the arguments `argv` name, and the arguments that are left for it. `help COMMAND` is
    `COMMAND --help`.

    Raises:
        ValueError: the first argument is neither a flag nor a command.
    """
    if argv and argv[0] == 'help':
        name, _ = split(argv[1:] or [TRAIN])
        return name, ['--help']
    if not argv or argv[0].startswith('-'):
        return TRAIN, list(argv)
    name, *rest = argv
    if name not in COMMANDS:
        meant = nearest(name, COMMANDS)
        if name in PROGRAMS:
            meant = f'; it is a program of its own: `{PROGRAMS[name]} --help` explains it'
        raise ValueError(f'{name}: no such command{meant}. Commands are {", ".join(COMMANDS)}; a flag is --name=value.')
    return name, rest


def version_text() -> str:
    """What --version prints. Imports no TensorFlow."""
    from estimator_trainer import compat

    versions = compat.versions()
    found = [f'{name} {versions[name]}' if name in versions else f'no {name}' for name in ('tensorflow', 'tf-keras')]
    return f'estimator-trainer {__version__} ({", ".join(found)}, Python {platform.python_version()})'


def find(name: str) -> Callable[[Sequence[str]], int]:
    """Imports a command."""
    return importlib.import_module(COMMANDS[name].module).main


def help_text() -> str:
    """The list of commands. The help of the trainer begins with it."""
    return '\n'.join(
        [
            'usage: python -m estimator_trainer [COMMAND] [--flag=value ...]',
            '       python -m estimator_trainer help COMMAND | --version',
            '',
            'Commands:',
            *(f'  {name:8} {command.summary}' for name, command in COMMANDS.items()),
            '',
            'Every command explains itself with --help. Two programs stand beside them: `python -m tf_config`',
            'reads, checks and makes TF_CONFIG; `python -m estimator_trainer.compat run` runs a program of your',
            'own that uses tf.estimator.',
        ]
    )
