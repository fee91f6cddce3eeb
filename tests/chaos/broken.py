"""What is broken from outside, or from the start: checkpoints, disks, permissions, ports, numbers, memory.

The exit code and the last line of each are what is shown.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import socket
import subprocess
from collections.abc import Callable

from estimator_trainer import exit_codes
from tests.chaos import alone, faults, files
from tests.chaos.case import Case, Row
from tests.chaos.faults import TRAINING
from tests.chaos.stage import SAVE_STEPS, Stage

NOBODY = 65534
_AS_NOBODY = ('setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups')
SLOWLY = '--param=slow_ms=40'  # so that there is time to break something
HALF = 3 * SAVE_STEPS


def _end(row, program, code) -> None:
    """Waits for the end of a program, and shows it."""
    found = program.wait()
    row.happened += f'{", " if row.happened else ""}exit {found}'
    if found:
        row.said.append(program.last_line)
    codes = code if isinstance(code, tuple) else (code,)
    row.expect(found in codes, f'exit code {found}, not {code}:\n{program.output}')


# Checkpoints


def _cut_data(model_dir, prefix):
    os.truncate(f'{prefix}.data-00000-of-00001', os.path.getsize(f'{prefix}.data-00000-of-00001') // 2)


def _flip_data(model_dir, prefix):
    path = pathlib.Path(f'{prefix}.data-00000-of-00001')
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _zero_index(model_dir, prefix):
    path = pathlib.Path(f'{prefix}.index')
    path.write_bytes(bytes(path.stat().st_size))


def _no_index(model_dir, prefix):
    os.unlink(f'{prefix}.index')


def _no_data(model_dir, prefix):
    os.unlink(f'{prefix}.data-00000-of-00001')


def _empty_state(model_dir, prefix):
    os.truncate(model_dir / 'checkpoint', 0)


def _cut_all(model_dir, prefix):
    for step in files.steps(model_dir):
        _cut_data(model_dir, model_dir / f'model.ckpt-{step}')


def half_trained(undisturbed) -> pathlib.Path:
    """The model_dir of a run that has come half the way."""
    return undisturbed.other('half', lambda stage: stage.trainer(f'--max_steps={HALF}'))


@dataclasses.dataclass(frozen=True)
class Damaged:
    """The newest checkpoint is damaged; the run goes on from `resumes`. None: from none."""

    damage: Callable
    resumes: int | None = HALF - SAVE_STEPS

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage:
            shutil.copytree(half_trained(undisturbed), stage.model_dir)
            self.damage(stage.model_dir, stage.model_dir / f'model.ckpt-{HALF}')
            program = stage.trainer()
            if self.resumes is None:
                _end(row, program, exit_codes.DAMAGED)
                _end(row, stage.trainer(), exit_codes.DAMAGED)  # not from the beginning, unasked
                return row
            _end(row, program, exit_codes.OK)
            row.said += [line for line in program.output.splitlines() if 'WARNING: checkpoint' in line]
            sessions = [event['step'] for event in stage.scene.events('session')]
            row.lost = HALF - sessions[0]
            row.expect(sessions == [self.resumes], f'it has resumed at {sessions}')
            row.judge(stage, undisturbed.alone())
        return row


# Disks and folders


def _mount_problem() -> str | None:
    if os.geteuid() != 0 or shutil.which('mount') is None:
        return 'needs root, to mount a small tmpfs'
    return None


@contextlib.contextmanager
def _small_disk(folder, megabytes):
    """Yields whether there is one; a machine may forbid it."""
    folder.mkdir()
    done = subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={megabytes}m', 'tmpfs', folder], capture_output=True)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(['umount', '-l', folder], check=False)


def _wait_for_step(stage, step):
    faults.until(lambda: any(event['step'] >= step for event in stage.scene.events(TRAINING)), f'no step {step}')


def full_disk(folder, undisturbed) -> Row:
    """The disk is full from step 30 on; then somebody makes room, and gives the same command again."""
    row = Row()
    problem = _mount_problem()
    if problem:
        return Row(happened=f'skipped: {problem}')
    with Stage(folder) as stage, _small_disk(stage.folder / 'disk', 4) as there:
        if not there:
            return Row(happened='skipped: no tmpfs can be mounted')
        stage.model_dir = stage.folder / 'disk' / 'model'
        program = stage.trainer(SLOWLY)
        _wait_for_step(stage, 30)
        ballast = stage.folder / 'disk' / 'ballast'
        with contextlib.suppress(OSError), open(ballast, 'wb', buffering=0) as file:
            while file.write(bytes(512)):  # to the last byte
                pass
        _end(row, program, exit_codes.CANNOT_WRITE)
        row.expect('No space left' in program.last_line, 'the last line does not name the cause')
        row.expect(not files.differences(stage.model_dir, undisturbed.alone()), 'a checkpoint is not whole')
        row.expect(files.named(stage.model_dir) == SAVE_STEPS, 'the last good checkpoint is not named')
        ballast.unlink()
        _end(row, stage.trainer(SLOWLY), exit_codes.OK)
        row.judge(stage, undisturbed.alone())
    return row


def _nobody_problem() -> str | None:
    if os.geteuid() != 0 or shutil.which('setpriv') is None:
        return 'needs root, to become somebody whom permissions stop'
    return None


def _open_to_nobody(stage):
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
    problem = _nobody_problem()
    if problem:
        return Row(happened=f'skipped: {problem}')
    row = Row()
    with Stage(folder) as stage:
        _open_to_nobody(stage)
        stage.model_dir.mkdir(mode=0o755)
        _end(row, trainer_of_nobody(stage), exit_codes.USAGE)
        row.expect(not list(stage.model_dir.iterdir()), 'something was written')
    return row


def read_only_later(folder, undisturbed) -> Row:
    """The model_dir is made read-only at step 30; then writable, and the same command again."""
    problem = _nobody_problem()
    if problem:
        return Row(happened=f'skipped: {problem}')
    row = Row()
    with Stage(folder) as stage:
        _open_to_nobody(stage)
        stage.model_dir.mkdir()
        os.chown(stage.model_dir, NOBODY, NOBODY)
        program = trainer_of_nobody(stage, SLOWLY)
        _wait_for_step(stage, 30)
        stage.model_dir.chmod(0o555)
        _end(row, program, exit_codes.CANNOT_WRITE)
        stage.model_dir.chmod(0o755)
        _end(row, trainer_of_nobody(stage, SLOWLY), exit_codes.OK)
        row.judge(stage, undisturbed.alone())
    return row


def taken_model_dir(folder, undisturbed) -> Row:
    """A second trainer, and a second cluster, in one model_dir."""
    row = Row()
    with Stage(folder) as stage:
        first = stage.trainer('--param=slow_ms=500')
        _wait_for_step(stage, 1)
        _end(row, stage.trainer('--param=slow_ms=500'), exit_codes.USAGE)
        row.expect(f'process {first.pid} trains there' in row.said[0], 'it does not say who')
        row.expect(first.poll() is None, 'the first one has ended')
    return row


def taken_by_a_cluster(folder, undisturbed) -> Row:
    row = Row()
    with Stage(folder) as stage:
        first = stage.cluster(['--workers=1', '--noevaluator'], '--param=slow_ms=500')
        _wait_for_step(stage, 1)
        _end(row, stage.cluster(['--workers=1', '--noevaluator'], '--param=slow_ms=500'), exit_codes.USAGE)
        row.expect(f'pid {first.pid}' in row.said[0], 'it does not say who')
        row.expect(first.poll() is None, 'the first one has ended')
    return row


# Ports, numbers, exceptions, memory


def taken_port(folder, undisturbed) -> Row:
    row = Row()
    with Stage(folder) as stage, alone.two_addresses() as hosts, socket.socket() as squatter:
        squatter.bind(('0.0.0.0', int(hosts[1].rpartition(':')[2])))
        squatter.listen()
        chief, worker = alone.start_pair(stage, hosts, '--join_timeout_secs=15')
        _end(row, worker, exit_codes.PORT_TAKEN)
        row.expect(hosts[1] in row.said[0], 'the last line does not name the port')
        _end(row, chief, (exit_codes.NO_PEER, exit_codes.LOST_PEER))
        row.judge(stage, finished=False)
    return row


@dataclasses.dataclass(frozen=True)
class Fails:
    """A job that fails by itself, at step 50, each time.

    Attributes:
        attempts: of a supervisor; 0: a process of its own.
    """

    param: str
    code: int
    attempts: int = 0
    says: str = ''

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage:
            flag = f'--param={self.param}'
            program = stage.cluster(['--workers=2', '--noevaluator'], flag) if self.attempts else stage.trainer(flag)
            _end(row, program, self.code)
            row.expect(self.says in program.output, f'it does not say {self.says!r}')
            if self.attempts:
                report = json.loads((stage.model_dir / 'report.json').read_text())
                row.happened += f', {len(report["attempts"])} attempt(s)'
                row.said = [report['attempts'][-1]['cause']['message']]
                row.expect(len(report['attempts']) == self.attempts, program.output)
            row.judge(stage, undisturbed.two_workers() if self.attempts else undisturbed.alone(), finished=False)
            row.expect(files.named(stage.model_dir) == 2 * SAVE_STEPS, 'the last good checkpoint is not there')
        return row


@dataclasses.dataclass(frozen=True)
class OutOfMemory:
    """`ulimit -v`. Where it is so low that not even TensorFlow can be imported, any code but 0 will do."""

    kilobytes: int
    waste_mb: int
    codes: tuple

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage:
            limited = ('bash', '-c', f'ulimit -v {self.kilobytes} && exec "$@"', 'bash')
            _end(row, stage.trainer(f'--param=waste_mb={self.waste_mb}', before=limited), self.codes)
            row.expect('memory' in row.said[0].lower() or 'map segment' in row.said[0], 'memory is not named')
        return row


def cases() -> list:
    found = []

    def add(fault, moment, play):
        found.append(Case('broken', fault, moment, play))

    newest = 'newest checkpoint'
    for what, damage in (
        ('data cut short', _cut_data),
        ('data with one bit flipped', _flip_data),
        ('no data', _no_data),
        ('no index', _no_index),
        ('index of zeros', _zero_index),
    ):
        add(what, newest, Damaged(damage))
    add('`checkpoint` is empty', '', Damaged(_empty_state, resumes=HALF))
    add('data cut short', 'all checkpoints', Damaged(_cut_all, resumes=None))
    add('full disk', TRAINING, full_disk)
    add('read-only model_dir', 'before', read_only_from_the_start)
    add('read-only model_dir', TRAINING, read_only_later)
    add('a second trainer', TRAINING, taken_model_dir)
    add('a second cluster', TRAINING, taken_by_a_cluster)
    add('port taken', 'before', taken_port)
    add('NaN loss', 'step 50', Fails('nan_at=50', exit_codes.NOT_FINITE))
    add('NaN loss, supervisor', 'step 50', Fails('nan_at=50', exit_codes.NOT_FINITE, 1))
    add('exception', 'step 50', Fails('raise_at=50', exit_codes.FAILED, says='as it was told'))
    add('exception, supervisor', 'step 50', Fails('raise_at=50', exit_codes.FAILED, 2, 'as it was told'))
    add('ulimit -v 6 GB', TRAINING, OutOfMemory(6_000_000, 8000, (exit_codes.OUT_OF_MEMORY,)))
    add('ulimit -v 1 GB', 'import', OutOfMemory(1_000_000, 0, tuple(range(1, 256))))
    return found
