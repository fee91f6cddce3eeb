"""The commands of `python -m estimator_trainer`. A command's module is imported when the command runs."""

import importlib
import itertools
import platform
from collections.abc import Callable, Sequence
from typing import NamedTuple

from estimator_trainer import __version__
from estimator_trainer.errors import nearest


class Command(NamedTuple):
    """A command.

    Attributes:
        module: has a function `main`, which takes the arguments that are left for the command and returns an exit code.
            The `main` of `train` takes the program's name before them.
        purpose: one of PURPOSES.
        summary: what the command does, for the list of commands.
    """

    module: str
    purpose: str
    summary: str


TRAIN = 'train'
EVERY_DAY = 'every day'
PURPOSES = {  # what a person wants to do, as the help groups the commands
    EVERY_DAY: 'Every day',
    'train': 'Train elsewhere, or often',
    'look': 'Look at a run',
    'use': 'Use what was trained',
    'move': "Move to today's TensorFlow, or to Keras",
    'check': 'Check',
}
COMMANDS = {
    TRAIN: Command(
        'estimator_trainer.main', EVERY_DAY, 'trains, evaluates and exports a job; you may leave the word out'
    ),
    'cluster': Command(
        'estimator_trainer.supervisor.cluster_command',
        EVERY_DAY,
        'runs several tasks on this machine, and restarts them when one fails',
    ),
    'status': Command(
        'estimator_trainer.tools.status',
        EVERY_DAY,
        'says in one line how a run is, or how it ended; --follow says it again',
    ),
    'report': Command(
        'estimator_trainer.tools.report.report_command',
        EVERY_DAY,
        'writes a page of a run: curves, what happened, where the time went; or of several runs compared',
    ),
    'predict': Command(
        'estimator_trainer.tools.predict.predict_command',
        EVERY_DAY,
        'predicts every example of files with an exported model',
    ),
    'submit': Command(
        'estimator_trainer.submit.submit_command',
        'train',
        'writes what Slurm, Kubernetes or Ray needs to run a job, and submits it',
    ),
    'sweep': Command(
        'estimator_trainer.tools.sweep.sweep_command',
        'train',
        'trains a job with other params in each trial, and names the best one',
    ),
    'inspect': Command(
        'estimator_trainer.tools.inspection.inspect_command',
        'look',
        'says what a model_dir or a SavedModel is, without its program, and what can be done with it',
    ),
    'track': Command(
        'estimator_trainer.tools.track.track_command',
        'look',
        'sends a run to MLflow, Weights & Biases or the HParams of TensorBoard: what was not sent yet',
    ),
    'evaluate': Command(
        'estimator_trainer.tools.finished.evaluate',
        'use',
        'evaluates a checkpoint of a run, and prints its metrics as JSON',
    ),
    'export': Command(
        'estimator_trainer.tools.finished.export',
        'use',
        'writes a SavedModel of a checkpoint of a run, and prints its path',
    ),
    'assess': Command(
        'estimator_trainer.tools.assess.assess_command',
        'move',
        'reads programs, and says what runs here, what blocks, and what becomes of it in Keras 3',
    ),
    'migrate': Command(
        'estimator_trainer.tools.migrate.migrate_command',
        'move',
        "turns an Estimator's checkpoint into Keras's files, and back",
    ),
    'doctor': Command(
        'estimator_trainer.tools.doctor',
        'check',
        'says whether Estimators work with the packages installed here, and how to run a program',
    ),
    'verify': Command(
        'estimator_trainer.tools.comparison.verify_command',
        'check',
        'trains a program in two environments, and says whether and where they compute something else',
    ),
    'parity': Command(
        'estimator_trainer.tools.comparison.parity_command',
        'check',
        'trains a job with every loop, and compares the weights of each step',
    ),
}
PROGRAMS = {'tf_config': 'python -m tf_config', 'compat': 'python -m estimator_trainer.compat'}  # beside the commands


def split(argv: Sequence[str]) -> tuple[str, list[str]]:
    """The command that the arguments `argv` name, and the arguments that are left for it.

    `help COMMAND` means `COMMAND --help`.

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
        if name == 'run':
            meant = f'; a program of your own runs by `{PROGRAMS["compat"]} run FILE`, and a Job by `train`'
        raise ValueError(f'{name}: no such command{meant}. Commands are {", ".join(COMMANDS)}; a flag is --name=value.')
    return name, rest


def version_text() -> str:
    """What --version prints. Imports no TensorFlow."""
    from estimator_trainer import compat

    versions = compat.versions()
    packages = [f'{name} {versions[name]}' if name in versions else f'no {name}' for name in ('tensorflow', 'tf-keras')]
    return f'estimator-trainer {__version__} ({", ".join(packages)}, Python {platform.python_version()})'


def find(name: str) -> Callable[[Sequence[str]], int]:
    """Imports a command, and returns its `main`."""
    main: Callable[[Sequence[str]], int] = importlib.import_module(COMMANDS[name].module).main
    return main


def help_text() -> str:
    """The list of commands. The help of the trainer begins with it."""
    return '\n'.join(
        [
            'usage: python -m estimator_trainer [COMMAND] [--flag=value ...]',
            '       python -m estimator_trainer help COMMAND | --version',
            '',
            *itertools.chain.from_iterable(map(_group, PURPOSES)),
            'Every command explains itself with --help. Two programs stand beside them: `python -m tf_config`',
            'reads, checks and makes TF_CONFIG; `python -m estimator_trainer.compat run` runs a program of your',
            'own that uses tf.estimator.',
        ]
    )


def _group(purpose: str) -> list[str]:
    """The lines of the commands for a purpose, and an empty line."""
    summaries = {name: command.summary for name, command in COMMANDS.items() if command.purpose == purpose}
    return [f'{PURPOSES[purpose]}:', *(f'  {name:8} {summary}' for name, summary in summaries.items()), '']
