"""The engines that tests of `submit` run. They are installed before the tests:

    python -m tests.submit.engines FOLDER && python -m pytest --engines=FOLDER tests/submit

Debian's packages are installed where there is root and no systemd, which would start their services. Without them, and
without a FOLDER, the tests that need them are skipped and say why.
"""

import os
import pathlib
import shutil
import subprocess
import sys

INSTALL_SECS = 600
COMMANDS = {  # Debian's package -> what the tests use of it
    'slurm-wlm': ('sbatch', 'srun', 'slurmctld', 'slurmd'),
    'openmpi-bin': ('mpirun',),
}
REQUIREMENTS = {  # virtual environments of their own: these packages should not be in that of the trainer
    'ray': ('ray==2.60.0', 'pyyaml', 'absl-py'),  # no TensorFlow: the trainer runs in our environment
    'kubernetes': ('kubernetes-validate==1.37.0', 'kubeflow-training==1.9.4', 'kubeflow-trainer-api==2.3.0'),
}


def missing(package: str) -> str | None:
    """What of a Debian package is not here, as a sentence; None: nothing."""
    commands = [command for command in COMMANDS[package] if shutil.which(command) is None]
    return f'{", ".join(commands)}: not here (apt-get install {package})' if commands else None


def python(folder: str | None, name: str) -> str:
    """The Python of the virtual environment `name`.

    Raises:
        FileNotFoundError: it has not been installed; says how it is.
    """
    path = pathlib.Path(folder or 'FOLDER', name, 'bin', 'python')
    if not path.exists():
        raise FileNotFoundError(f'{path}: not here (python -m tests.submit.engines FOLDER, pytest --engines=FOLDER)')
    return os.fspath(path)


def install(folder: pathlib.Path) -> None:
    """Installs all of them.

    Raises:
        subprocess.SubprocessError: an installation failed, or did not end within `INSTALL_SECS`.
    """
    for name, requirements in REQUIREMENTS.items():
        if not (folder / name / 'done').exists():
            _run(sys.executable, '-m', 'venv', '--clear', folder / name)
            _run(folder / name / 'bin' / 'python', '-m', 'pip', 'install', '-q', *requirements)
            (folder / name / 'done').touch()
    wanted = [package for package in COMMANDS if missing(package)]
    if wanted and (os.geteuid() != 0 or pathlib.Path('/run/systemd/system').exists() or not shutil.which('apt-get')):
        print(f'needs root, apt-get and no systemd: {" ".join(wanted)}; the tests of them will be skipped')
    elif wanted:
        _run('apt-get', '-q', 'update')
        _run('apt-get', '-q', 'install', '-y', '--no-install-recommends', *wanted)


def _run(*command) -> None:
    environ = {**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'}
    subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, check=True, timeout=INSTALL_SECS)


if __name__ == '__main__':
    install(pathlib.Path(sys.argv[1]).absolute())
