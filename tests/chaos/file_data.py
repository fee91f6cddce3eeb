"""Faults of runs that read files, and faults of the files. The weights are those of the same examples as arrays."""

import dataclasses
import os

from tests.chaos import file_job
from tests.chaos.case import Case, Row
from tests.chaos.faults import TRAINING, Fault
from tests.chaos.stage import Stage
from tests.chaos.supervised import SHORT, SYNC, Struck


@dataclasses.dataclass(frozen=True)
class KilledInACluster:
    """Two workers under a supervisor, one of them killed."""

    ending: str

    def __call__(self, folder, undisturbed) -> Row:
        flags = file_job.write(folder.with_name(f'{folder.name}-data'), self.ending)
        fault = Fault(at='worker:0', moment=TRAINING, step=47, target='worker:1')
        play = Struck(fault, SYNC, cause=('worker:1', 137), flags=(*SHORT, *flags, '--shuffle=records'))
        return play(folder, undisturbed)


@dataclasses.dataclass(frozen=True)
class InterruptedTwice:
    """A process of its own: kill -9, then SIGTERM, and the same command each time."""

    ending: str

    def __call__(self, folder, undisturbed) -> Row:
        row, compared = Row(), undisturbed.alone()
        flags = [*file_job.write(folder.with_name(f'{folder.name}-data'), self.ending), '--shuffle=records']
        faults = [Fault('trainer', TRAINING, 33), Fault('trainer', TRAINING, 71, signal='SIGTERM')]
        with Stage(folder, *faults) as stage:
            codes = [stage.trainer(*flags).wait() for _ in range(3)]
            row.happened = ', '.join(f'exit {code}' for code in codes)
            row.expect(codes == [137, 143, 0], stage.programs[-1].output)
            row.judge(stage, compared)
        return row


@dataclasses.dataclass(frozen=True)
class BadRecord:
    """A record of a cluster's files is damaged: the run ends and names it; once mended, the same command goes on."""

    def __call__(self, folder, undisturbed) -> Row:
        row, compared = Row(), undisturbed.two_workers()
        data = folder.with_name(f'{folder.name}-data')
        flags = [*file_job.write(data, 'tfrecord'), '--shuffle=records']
        path = data / 'train-3.tfrecord'
        whole, stamp = path.read_bytes(), path.stat()
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 0x10
        path.write_bytes(damaged)
        with Stage(folder) as stage:
            first = stage.cluster(SYNC, *SHORT, *flags)
            codes = [first.wait()]
            row.said = [line for line in first.output.splitlines() if 'train-3.tfrecord, record' in line][:1]
            row.expect(bool(row.said), first.output[-4000:])
            path.write_bytes(whole)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            codes.append(stage.cluster(SYNC, *SHORT, *flags).wait())
            row.happened = ', '.join(f'exit {code}' for code in codes)
            row.expect(codes == [65, 0], stage.programs[-1].output[-4000:])
            row.judge(stage, compared)
        return row


def grows(folder, undisturbed) -> Row:
    """A file that comes while the run is interrupted is taken at the next start, which says so."""
    row = Row()
    data = folder.with_name(f'{folder.name}-data')
    flags = [*file_job.write(data, 'tfrecord'), '--max_steps=90']
    with Stage(folder, Fault('trainer', TRAINING, 33, signal='SIGTERM')) as stage:
        codes = [stage.trainer(*flags).wait()]
        file_job.write_file(data / 'train-9.tfrecord', *file_job.points(3, 50))
        again = stage.trainer(*flags)
        codes.append(again.wait())
        row.happened = ', '.join(f'exit {code}' for code in codes)
        row.said = [line for line in again.output.splitlines() if 'have changed since' in line]
        row.expect(codes == [143, 0] and '7 file(s) with 640 examples then, 8 with 690' in again.output, again.output)
        row.judge(stage, last_step=90)
    return row


def changes(folder, undisturbed) -> Row:
    """A file that changes while it is in use ends the run, saved."""
    row = Row()
    data = folder.with_name(f'{folder.name}-data')
    flags = [*file_job.write(data, 'tfrecord'), '--max_steps=100000', '--save_checkpoints_steps=50000']
    with Stage(folder) as stage:
        program = stage.trainer(*flags)
        program.says('step 100/')
        os.utime(data / 'train-2.tfrecord', ns=(1, 1))
        code = program.wait()
        row.happened, row.said = f'exit {code}', [program.last_line]
        row.expect(code == 66 and 'train-2.tfrecord has changed while it was in use' in program.output, program.output)
        row.judge(stage, finished=False)
        saved = max(int(path.stem.partition('-')[2]) for path in stage.model_dir.glob('model.ckpt-*.index'))
        row.expect(saved >= 100, f'the last checkpoint is of step {saved}')
    return row


def cases() -> list:
    return [
        *(
            Case('files', f'kill -9 worker:1, {ending}', 'training', KilledInACluster(ending))
            for ending in ('tfrecord', 'csv', 'parquet', 'array_record')
        ),
        *(
            Case('files', f'kill -9, SIGTERM, {ending}', 'training', InterruptedTwice(ending))
            for ending in ('tfrecord.gz', 'parquet')
        ),
        Case('files', 'damaged record, two workers', 'training', BadRecord()),
        Case('files', 'one more file', 'between starts', grows),
        Case('files', 'a file changes', 'training', changes),
    ]
