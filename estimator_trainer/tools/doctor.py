"""What is here, what is supplied and mended and why, and what cannot work: one line each."""

import contextlib
import importlib.metadata
import io
import os
import platform
import re
import sys
import time

from estimator_trainer import compat, exit_codes
from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import table
from estimator_trainer.errors import UsageError

_SUPPLIED = (
    'tf.estimator, tf.compat.v1.estimator, tf.compat.v2.estimator, import tensorflow.estimator: '
    'removed in 2.16; from tensorflow-estimator, loaded when first touched',
    'tensorflow.python.distribute.estimator_training: removed in 2.16; written anew',
    "tensorflow.python.estimator and its modules: removed in 2.16; names of tensorflow_estimator's",
    'tf.keras: Keras 3 since 2.16; Keras 2 of tf-keras, resolved before any thread can touch it',
)
_CANNOT = (
    'TPUs: what TensorFlow had for them is gone; TPUEstimator runs with use_tpu=False',
    'tf.data.experimental.CheckpointInputPipelineHook: removed from TensorFlow',
    'Keras 3 models in an Estimator: tf.keras is Keras 2 in this process',
)

_IN_SHORT = ('problem: ', 'works: ', 'this TensorFlow ')
_SEEDS = (
    "seeds: a layer without a seed (tf.compat.v1.layers, tf.keras.layers) takes it from Python's random, not from "
    'tf_random_seed, so that each run begins with other weights: '
    'python -m estimator_trainer.compat run --stable-seeds PROGRAM makes them equal'
)
ESTIMATOR = 'pip install "tensorflow-estimator==2.15.*"'

USAGE = """\
usage: python -m estimator_trainer doctor [PROGRAM_OR_FOLDER ...] [--verbose]

Says what is installed, what is supplied and mended and why, and what cannot work here. Of a program it says how to
run it (whether it needs `compat run --tf1`), what it lacks, and whether Estimators work here; --verbose adds the
rest. Ends with 0 if Estimators work here and the program lacks no package, and with 1 if not.
"""


def main(argv) -> int:
    """Runs the command line `argv`, without program name. The exit code."""
    if any(argument in ('-h', '-help', '--help') for argument in argv):
        print(USAGE)
        return exit_codes.OK
    verbose = [argument for argument in argv if argument in ('-verbose', '--verbose')]
    programs = [argument for argument in argv if argument not in verbose]
    flags = [argument for argument in programs if argument.startswith('-')]
    if flags:
        print(f'error: {" ".join(flags)}: no such flag; doctor takes programs, folders and --verbose.', file=sys.stderr)
        return exit_codes.USAGE
    from estimator_trainer.tools.assess import old_names

    try:
        of_programs = [*old_names.advice(programs)] if programs else []
    except UsageError as error:
        print(f'error: {error}', file=sys.stderr)
        return exit_codes.USAGE
    for line in of_programs:
        print(line)
    code = examine() if verbose or not programs else _in_short()
    return 1 if any(line.startswith('problem: ') for line in of_programs) else code


def _in_short() -> int:
    """As `examine`, but prints only what matters to somebody who wants to run a program."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = examine()
    for line in said.getvalue().splitlines():
        if line.startswith(_IN_SHORT):
            print(line)
    print('--verbose lists what is supplied and mended here, and what cannot work')
    return code


def examine() -> int:
    """Prints the report. Returns 0 if Estimators work here, 1 if not."""
    print(f'python {platform.python_version()} on {platform.system()} {platform.machine()}')
    try:
        restored = not compat.has_estimators()
    except ImportError as error:
        print(f'problem: {error}')
        return 1
    tensorflow = '.'.join(str(part) for part in compat.tensorflow_version())
    found = compat.versions()
    print(
        'tensorflow', found.get('tensorflow', tensorflow), 'without tf.estimator' if restored else 'with tf.estimator'
    )
    _pre_release(found.get('tensorflow', ''))
    problems = [*_one_of(compat.DISTRIBUTIONS), *_package(('tensorflow-estimator',), '2.15', ESTIMATOR)]
    if restored:
        problems += _one_of(compat.KERAS_DISTRIBUTIONS)
        problems += _package(compat.KERAS_DISTRIBUTIONS, tensorflow, _keras_2(found.get('tensorflow', tensorflow)))
        problems += _protobuf(tensorflow)
        _tensorboard()
    print('environment: TF_USE_LEGACY_KERAS', 'set to 1 for this program' if restored else 'not needed')
    for line in _SUPPLIED if restored else ():
        print('supplied:', line)
    fixes_are_on = os.environ.get(compat.FIXES_VARIABLE) != '0'
    for line in table.lines(fixes_are_on, compat.FIXES_VARIABLE):
        print(line)
    for line in _CANNOT if restored else ():
        print('cannot work:', line)
    print(_SEEDS)
    for line in remote_files_here():
        print(line)
    problems += import_problems() if not problems else []
    for line in problems:
        print('problem:', line)
    return 1 if problems else 0


def _pre_release(version: str) -> None:
    """Says so where this TensorFlow has not been released, or is newer than what has been run."""
    if re.search('rc|dev', version):
        print('this TensorFlow is a pre-release: not all tests have been run with it')
    elif compat.tensorflow_version() > tuple(map(int, lacks.NEWEST.split('.'))):
        print(f'this TensorFlow is newer than {lacks.NEWEST}: no tests have been run with it')


def _keras_2(tensorflow: str) -> str:
    """What gives pip the Keras 2 of a TensorFlow. A pre-release is built nightly, and asks for tf-nightly."""
    minor = '.'.join(tensorflow.split('.')[:2])
    if re.search('rc|dev', tensorflow):
        return f'pip install --pre --no-deps "tf-keras-nightly=={minor}.*"'
    return f'pip install "tf-keras~={minor}.0"'


def _one_of(distributions) -> list:
    """pip installs tensorflow beside tensorflow-cpu or a vendor's build if a package asks for it."""
    names = [each.metadata['Name'] or '' for each in importlib.metadata.distributions()]
    installed = {name.lower().replace('_', '-') for name in names}
    several = [name for name in distributions if name in installed]
    if len(several) < 2:
        return []
    return [f'{" and ".join(several)} write over each other: uninstall all of them, then install the one you want']


def _package(names, wanted, cure) -> list:
    """Prints the one of these packages that is installed; returns what is wrong with it."""
    name = next((name for name in names if compat.installed(name)), None)
    if name is None:
        return [f'{names[0]} is not installed: {cure}']
    version = compat.installed(name)
    print(name, version)
    if version.split('.')[:2] != wanted.split('.')[:2]:
        before = '' if re.search(f'"{name}[~=]', cure) else f'pip uninstall {name}, then '
        return [f'{name} {version} does not fit: {before}{cure}']
    return []


def _protobuf(tensorflow) -> list:
    """TensorFlow 2.20 asks for any protobuf from 5.28 on, and writes no graph.pbtxt with 7."""
    if tensorflow == '2.20' and int(importlib.metadata.version('protobuf').split('.')[0]) >= 7:
        return ['TensorFlow 2.20 cannot save a checkpoint with protobuf 7: pip install "protobuf<7"']
    return []


def remote_files_here() -> list:
    """Which URLs the trainer and TensorFlow's own files take here."""
    from estimator_trainer.compat import remote_files
    from estimator_trainer.storage import connection

    compat.prepare()
    return [*connection.installed(os.environ), *remote_files.report(os.environ, compat.tensorflow_version())]


def _tensorboard() -> None:
    """TensorFlow no longer brings it, and its functions for summaries of TensorFlow 2 are part of it."""
    try:
        print('tensorboard', importlib.metadata.version('tensorboard'))
    except importlib.metadata.PackageNotFoundError:
        print('cannot work: tf.summary.scalar and its neighbours of TensorFlow 2: pip install tensorboard')


def import_problems() -> list:
    from estimator_trainer.compat import quiet

    start = time.monotonic()
    try:
        tf = quiet.import_tensorflow()
        imported = time.monotonic()
        keras = tf.estimator.Estimator and tf.keras.Model.__module__.split('.')[0]
    except Exception as error:
        return [f'tf.estimator cannot be imported: {type(error).__name__}: {error}']
    print(
        f'works: import tensorflow {imported - start:.1f} s, first use of tf.estimator '
        f'{time.monotonic() - imported:.1f} s more, tf.keras is {keras}'
    )
    return []
