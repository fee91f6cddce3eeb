"""Faults in the midst of a call of several steps, and of a job whose global step counts one batch in four."""

import dataclasses

from tests.chaos.case import EVERY_STEP, Case, Row
from tests.chaos.faults import TRAINING, Fault
from tests.chaos.stage import Stage
from tests.chaos.supervised import ALONE, SHORT, Struck


@dataclasses.dataclass(frozen=True)
class KilledInACluster:
    """Two workers under a supervisor, one of them killed."""

    job: str
    target: str

    def __call__(self, folder, undisturbed) -> Row:
        fault = Fault(at='worker:0', moment=TRAINING, step=47, target=self.target)
        compared = undisturbed.other(
            f'{self.job}-two-workers', lambda stage: stage.cluster(ALONE, *EVERY_STEP, _flag(self.job))
        )
        return _Struck(fault, ALONE, cause=(self.target, 137), flags=(*SHORT, _flag(self.job)), undisturbed=compared)(
            folder, undisturbed
        )


@dataclasses.dataclass(frozen=True)
class _Struck(Struck):
    undisturbed: object = None

    def _compared(self, undisturbed):
        return self.undisturbed


@dataclasses.dataclass(frozen=True)
class InterruptedTwice:
    """A process of its own: kill -9, then SIGTERM, and the same command each time."""

    job: str

    def __call__(self, folder, undisturbed) -> Row:
        compared = undisturbed.other(f'{self.job}-alone', lambda stage: stage.trainer(*EVERY_STEP, _flag(self.job)))
        row = Row()
        faults = [Fault('trainer', TRAINING, 33), Fault('trainer', TRAINING, 71, signal='SIGTERM')]
        with Stage(folder, *faults) as stage:
            codes = [stage.trainer(_flag(self.job), '--export=none').wait() for _ in range(3)]
            row.happened = ', '.join(f'exit {code}' for code in codes)
            row.expect(codes == [137, 143, 0], stage.programs[-1].output)
            # Of four batches that end at step 71, the signal may have come at another one than the save without it.
            row.judge(stage, compared, besides=[71] if self.job == 'accumulating' else [])
        return row


def _flag(job):
    return f'--job=tests.chaos.unlike_job:{job}'


def cases() -> list:
    return [
        case
        for job in ('lstm', 'accumulating')
        for case in (
            *(
                Case('unlike', f'kill -9 {worker}, {job}', 'training', KilledInACluster(job, worker))
                for worker in ('worker:0', 'worker:1')
            ),
            Case('unlike', f'kill -9, SIGTERM, {job}', 'training', InterruptedTwice(job)),
        )
    ]
