"""What a Slurm job does on each node if its model_dir is in a store, so that nothing is shared.

    python -m estimator_trainer.submit.slurm_node run JOB ATTEMPT SCRATCH COMMAND ...
        becomes the COMMAND of a task, which gets the folder SCRATCH as its --scratch_dir; '': one in the job's own.
    python -m estimator_trainer.submit.slurm_node tell JOB ATTEMPT CODE
        prints the error files of the tasks of this node, a line of JSON each; after CODE 0 it removes the job's folder.

The job's own folder is on the disk of the node: in SLURM_TMPDIR, TMPDIR or /tmp.
"""

import json
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import protocol
from estimator_trainer.submit import verdict
from tf_config import inherited

_TEXT = 300  # characters: a line has to arrive whole among those of other nodes


def folder(job: str, environ: Mapping[str, str]) -> pathlib.Path:
    """The folder of the job on this node."""
    where = environ.get('SLURM_TMPDIR') or environ.get('TMPDIR') or '/tmp'
    return pathlib.Path(where, f'estimator_trainer-{job}')


def make_private(path: pathlib.Path) -> None:
    """Makes a folder that only this user can enter. Raises OSError if another user has made it before, as in /tmp."""
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(1, 'is not private to this user', str(path))


def run(job: str, attempt: str, scratch: str, command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Becomes the command; returns only if that is not possible."""
    own, rank = folder(job, environ), environ['SLURM_PROCID']
    try:
        make_private(own)
        errors = own / attempt
        errors.mkdir(exist_ok=True)
        words = [*command, f'--scratch_dir={scratch or own / "scratch"}']
        os.execvpe(command[0], words, {**environ, protocol.ERROR_FILE: str(errors / f'{rank}.error.json')})
    except OSError as error:
        print(f'{error.filename}: {error.strerror}', file=sys.stderr)
    return exit_codes.CANNOT_WRITE


def tell(job: str, attempt: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yields what the tasks of this node have said of their ends. Long texts are cut, and tracebacks left out."""
    for path in sorted((folder(job, environ) / attempt).glob(verdict.ERROR_FILES)):
        said = {name: value for name, value in protocol.read_json(str(path)).items() if name != 'traceback'}
        yield json.dumps({name: value[:_TEXT] if isinstance(value, str) else value for name, value in said.items()})


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Runs the command line `argv`, which has no program name, and returns the exit code."""
    verb, job, attempt, last, *command = argv
    if verb == 'run':
        return run(job, attempt, last, command, environ)
    if last == str(exit_codes.OK):
        shutil.rmtree(folder(job, environ), ignore_errors=True)
    for line in tell(job, attempt, environ):
        print(line)
    return exit_codes.OK


if __name__ == '__main__':
    inherited.mend()
    sys.exit(main(sys.argv[1:], os.environ))
