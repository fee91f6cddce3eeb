"""Packages from the index that use tf.estimator, unmodified, on the newest TensorFlow.

    python tests/acceptance/third_party.py [--only=NAME] [FOLDER]

makes a virtual environment for each under FOLDER, installs the package as the index has it, trains and
evaluates a small real model of it through `compat run`, and prints a line each. About 2 minutes and
2.5 GB each; not part of CI. What cannot work, and why, is in docs/compat.md.

    python tests/acceptance/third_party.py --tests --plain=PYTHON_OF_2.15.1 --compat=PYTHON --sources=FOLDER FOLDER

runs the tests that the packages bring along on both, and prints a row and the failures of each. The Pythons are of
environments with estimator-trainer[test]; --sources has git repositories named owner+name. Outcomes are kept in
FOLDER: a second call runs only what is missing there.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import packages_own_tests

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
BASE = ('tensorflow==2.21.*', 'tf-keras==2.21.*', 'tensorflow-estimator==2.15.*')
PACKAGES = {  # program in third_party/ -> what is installed; TensorFlow 2.21 no longer brings tensorboard
    'deepctr_models': ('deepctr==0.9.4', 'tensorboard', 'setuptools<81'),
    'tensorflow_ranking_model': ('tensorflow-ranking==0.5.3',),
    'tensorflow_privacy_model': ('tensorflow-privacy==0.9.0',),
    'tensorflow_gan_model': ('tensorflow-gan==2.1.0', 'setuptools<81'),
    'spleeter_model': ('ffmpeg-python', 'norbert', 'httpx', 'pandas', 'typer==0.3.2', 'click<8'),
}
# Installed afterwards and without what they ask for: Spleeter asks for TensorFlow 2.12.1.
WITHOUT_NEEDS = {'spleeter_model': ('spleeter==2.4.2',)}
OLD_PYTHON = {'tensorflow_gan_model': '3.10'}  # it calls inspect.getargspec, which 3.11 removed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('folder', nargs='?', help='kept; a temporary one otherwise')
    parser.add_argument('--only', action='append', help=f'one of {", ".join(PACKAGES)}; with --tests, a package')
    parser.add_argument('--python', help='runs the programs here instead of in environments of their own')
    parser.add_argument('--tests', action='store_true', help='runs the own tests of the packages instead')
    parser.add_argument('--plain', help='with --tests: a Python with TensorFlow 2.15.1')
    parser.add_argument('--compat', help='with --tests: a Python with a newer TensorFlow')
    parser.add_argument('--sources', type=pathlib.Path, help='with --tests: a folder of git repositories')
    parser.add_argument('--files', default='*', help='with --tests: a pattern for files of tests')
    options = parser.parse_args()
    folder = pathlib.Path(options.folder or tempfile.mkdtemp(prefix='third_party-'))
    if options.tests:
        return _own_tests(options, folder)
    failed = 0
    for name in options.only or PACKAGES:
        start = time.monotonic()
        try:
            python = options.python or _environment(folder / name, name)
            line = _run(
                [
                    python,
                    '-m',
                    'estimator_trainer.compat',
                    'run',
                    HERE / 'third_party' / f'{name}.py',
                    tempfile.mkdtemp(),
                ],
                300,
            ).splitlines()[-1]
        except RuntimeError as error:
            failed += 1
            line = f'FAILED {error}'
        print(f'{name:28} {line}  ({time.monotonic() - start:.0f} s)', flush=True)
        if not options.folder:
            shutil.rmtree(folder / name, ignore_errors=True)
    return 1 if failed else 0


def _own_tests(options, folder) -> int:
    packages = packages_own_tests.packages()
    unknown = {*(options.only or ())} - {title.split()[0] for title in packages.sections()}
    if unknown:
        raise SystemExit(f'--only={", ".join(sorted(unknown))}: no such package; packages_own_tests.ini names them')
    print('| package | tests | 2.15.1 | compat | |\n|---|---|---|---|---|', flush=True)
    for title in packages.sections():
        name = title.split()[0]
        if name in (options.only or [name]):
            sides = (options.plain, options.compat)
            print(packages_own_tests.compare(packages[title], *sides, options.sources, folder / name, options.files))
    return 0


def _environment(folder, name) -> str:
    python = str(folder / 'bin/python')
    if not os.path.exists(python):
        version = OLD_PYTHON.get(name)
        base = sys.executable
        if version:
            installed = sorted(pathlib.Path.home().glob(f'.pyenv/versions/{version}.*/bin/python'))
            base = next(map(str, installed), None) or shutil.which(f'python{version}')
            if base is None:
                raise RuntimeError(f'needs Python {version}, which is not on this machine')
        _run([base, '-m', 'venv', folder], 120)
        _run([python, '-m', 'pip', 'install', '-q', '--upgrade', 'pip'], 120)
        _run([python, '-m', 'pip', 'install', '-q', *BASE, *PACKAGES[name]], 900)
        if name in WITHOUT_NEEDS:
            _run([python, '-m', 'pip', 'install', '-q', '--no-deps', *WITHOUT_NEEDS[name]], 300)
    return python


def _run(command, timeout) -> str:
    """Output of a command; RuntimeError with it if it fails or does not end in time."""
    env = {**os.environ, 'PYTHONPATH': str(REPOSITORY), 'TF_CPP_MIN_LOG_LEVEL': '3'}
    env.pop('TF_USE_LEGACY_KERAS', None)
    process = subprocess.Popen(
        list(map(str, command)),
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise RuntimeError(f'not done after {timeout} s: {command}') from None
    if process.returncode:
        raise RuntimeError(f'exit code {process.returncode}: {err[-3000:]}')
    return out


if __name__ == '__main__':
    sys.exit(main())
