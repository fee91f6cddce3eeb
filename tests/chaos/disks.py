"""Disks that are full and folders that cannot be written."""

import contextlib
import os
import shutil
import subprocess

from estimator_trainer import exit_codes
from tests.chaos import faults, files
from tests.chaos.case import Row
from tests.chaos.faults import TRAINING
from tests.chaos.stage import SAVE_STEPS, Stage

NOBODY = 65534
_AS_NOBODY = ('setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups')
SLOWLY = '--param=slow_ms=40'  # so that there is time to break something
HALF = 3 * SAVE_STEPS


def check_end(row, program, code) -> None:
    """Waits for the end of a program, and shows it."""
    found = program.wait()
    row.happened += f'{", " if row.happened else ""}exit {found}'
    if found:
        row.said.append(program.last_line)
    codes = code if isinstance(code, tuple) else (code,)
    row.expect(found in codes, f'exit code {found}, not {code}:\n{program.output}')


def mount_problem() -> str | None:
    if os.geteuid() != 0 or shutil.which('mount') is None:
        return 'needs root, to mount a small tmpfs'
    return None


@contextlib.contextmanager
def small_disk(folder, megabytes):
    """Yields whether there is one; a machine may forbid it."""
    folder.mkdir()
    done = subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={megabytes}m', 'tmpfs', folder], capture_output=True)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(['umount', '-l', folder], check=False)


def wait_for_step(stage, step):
    faults.until(lambda: any(event['step'] >= step for event in stage.scene.events(TRAINING)), f'no step {step}')


def full_disk(folder, undisturbed) -> Row:
    """The disk is full from step 30 on; then somebody makes room, and gives the same command again."""
    row = Row()
    problem = mount_problem()
    if problem:
        return Row(happened=f'skipped: {problem}')
    with Stage(folder) as stage, small_disk(stage.folder / 'disk', 4) as there:
        if not there:
            return Row(happened='skipped: no tmpfs can be mounted')
        stage.model_dir = stage.folder / 'disk' / 'model'
        program = stage.trainer(SLOWLY)
        wait_for_step(stage, 30)
        ballast = stage.folder / 'disk' / 'ballast'
        with contextlib.suppress(OSError), open(ballast, 'wb', buffering=0) as file:
            while file.write(bytes(512)):  # to the last byte
                pass
        check_end(row, program, exit_codes.CANNOT_WRITE)
        row.expect('No space left' in program.last_line, 'the last line does not name the cause')
        row.expect(not files.differences(stage.model_dir, undisturbed.alone()), 'a checkpoint is not whole')
        row.expect(files.named(stage.model_dir) == SAVE_STEPS, 'the last good checkpoint is not named')
        ballast.unlink()
        check_end(row, stage.trainer(SLOWLY), exit_codes.OK)
        row.judge(stage, undisturbed.alone())
    return row


def nobody_problem() -> str | None:
    if os.geteuid() != 0 or shutil.which('setpriv') is None:
        return 'needs root, to become somebody whom permissions stop'
    return None


def open_to_nobody(stage):
    """Lets nobody write into the case's folder, and come to it."""
    stage.folder.chmod(0o777)
    for parent in stage.folder.parents:
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)


def trainer_of_nobody(stage, *flags):
    """A trainer whom permissions stop. It writes no page, which takes a process of its own: where only root reaches
    Python, nobody cannot start another one, and a warning of that would be the last line."""
    return stage.trainer('--report=off', *flags, before=_AS_NOBODY, HOME='/tmp')


def read_only_from_the_start(folder, undisturbed) -> Row:
    problem = nobody_problem()
    if problem:
        return Row(happened=f'skipped: {problem}')
    row = Row()
    with Stage(folder) as stage:
        open_to_nobody(stage)
        stage.model_dir.mkdir(mode=0o755)
        check_end(row, trainer_of_nobody(stage), exit_codes.USAGE)
        row.expect(not list(stage.model_dir.iterdir()), 'something was written')
    return row


def read_only_later(folder, undisturbed) -> Row:
    """The model_dir is made read-only at step 30; then writable, and the same command again."""
    problem = nobody_problem()
    if problem:
        return Row(happened=f'skipped: {problem}')
    row = Row()
    with Stage(folder) as stage:
        open_to_nobody(stage)
        stage.model_dir.mkdir()
        os.chown(stage.model_dir, NOBODY, NOBODY)
        program = trainer_of_nobody(stage, SLOWLY)
        wait_for_step(stage, 30)
        stage.model_dir.chmod(0o555)
        check_end(row, program, exit_codes.CANNOT_WRITE)
        stage.model_dir.chmod(0o755)
        check_end(row, trainer_of_nobody(stage, SLOWLY), exit_codes.OK)
        row.judge(stage, undisturbed.alone())
    return row
