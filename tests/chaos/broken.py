"""What is broken from outside, or from the start: checkpoints, disks, permissions, ports, numbers, memory.

The exit code and the last line of each are what is shown.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import socket
from collections.abc import Callable

from estimator_trainer import exit_codes
from tests.chaos import files, pairs
from tests.chaos.case import Case, Row
from tests.chaos.disks import HALF, check_end, full_disk, read_only_from_the_start, read_only_later, wait_for_step
from tests.chaos.faults import TRAINING
from tests.chaos.stage import SAVE_STEPS, Stage


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
                check_end(row, program, exit_codes.DAMAGED)
                check_end(row, stage.trainer(), exit_codes.DAMAGED)  # not from the beginning, unasked
                return row
            check_end(row, program, exit_codes.OK)
            row.said += [line for line in program.output.splitlines() if 'WARNING: checkpoint' in line]
            sessions = [event['step'] for event in stage.scene.events('session')]
            row.lost = HALF - sessions[0]
            row.expect(sessions == [self.resumes], f'it has resumed at {sessions}')
            row.judge(stage, undisturbed.alone())
        return row


def taken_model_dir(folder, undisturbed) -> Row:
    """A second trainer, and a second cluster, in one model_dir."""
    row = Row()
    with Stage(folder) as stage:
        first = stage.trainer('--param=slow_ms=500')
        wait_for_step(stage, 1)
        check_end(row, stage.trainer('--param=slow_ms=500'), exit_codes.USAGE)
        row.expect(f'process {first.pid} trains there' in row.said[0], 'it does not say who')
        row.expect(first.poll() is None, 'the first one has ended')
    return row


def taken_by_a_cluster(folder, undisturbed) -> Row:
    row = Row()
    with Stage(folder) as stage:
        first = stage.cluster(['--workers=1', '--noevaluator'], '--param=slow_ms=500')
        wait_for_step(stage, 1)
        check_end(row, stage.cluster(['--workers=1', '--noevaluator'], '--param=slow_ms=500'), exit_codes.USAGE)
        row.expect(f'pid {first.pid}' in row.said[0], 'it does not say who')
        row.expect(first.poll() is None, 'the first one has ended')
    return row


def taken_port(folder, undisturbed) -> Row:
    row = Row()
    with Stage(folder) as stage, pairs.two_addresses() as hosts, socket.socket() as squatter:
        squatter.bind(('0.0.0.0', int(hosts[1].rpartition(':')[2])))
        squatter.listen()
        chief, worker = pairs.start_pair(stage, hosts, '--join_timeout_secs=15')
        check_end(row, worker, exit_codes.PORT_TAKEN)
        row.expect(hosts[1] in row.said[0], 'the last line does not name the port')
        check_end(row, chief, (exit_codes.NO_PEER, exit_codes.LOST_PEER))
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
            check_end(row, program, self.code)
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
            check_end(row, stage.trainer(f'--param=waste_mb={self.waste_mb}', before=limited), self.codes)
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
