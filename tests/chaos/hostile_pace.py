"""Hostile jobs whose steps become slow: SIGTERM is obeyed within the grace period all the same."""

import dataclasses
import re

from estimator_trainer import exit_codes
from tests.chaos.alone import BOTH, start_pair, two_addresses
from tests.chaos.case import Case, Row
from tests.chaos.faults import TRAINING, Fault
from tests.chaos.stage import Stage

SLOW_FROM = 60
FAST_THEN_SLOW = (
    '--job=tests.chaos.data_job:job',
    '--max_steps=10000',
    f'--param=slow_from={SLOW_FROM}',
    '--param=slow_ms=1000',
    '--save_checkpoints_steps=100000',
    '--export=none',
)
LOOPS = {
    'estimator': ('--loop=estimator',),
    'estimator 1': ('--loop=estimator', '--steps_per_call=1'),
    'keras_fit': ('--loop=keras_fit',),
    'custom_loop': ('--loop=custom_loop',),
    'custom_loop 1': ('--loop=custom_loop', '--steps_per_call=1'),
}


@dataclasses.dataclass(frozen=True)
class BecomesSlow:
    """Steps of a few milliseconds become steps of a second; then SIGTERM, to one of two workers or to a
    process of its own. With the grace period as it is by default, every task saves the same step."""

    flags: tuple
    pair: bool

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        at = BOTH[1] if self.pair else 'trainer'
        # Batches are asked for a few steps ahead: at this one slow steps are under way.
        fault = Fault(at=at, moment=TRAINING, step=SLOW_FROM + 5, signal='SIGTERM')
        with Stage(folder, fault) as stage, two_addresses() as hosts:
            flags = (*FAST_THEN_SLOW, *self.flags)
            programs = start_pair(stage, hosts, *flags) if self.pair else [stage.trainer(*flags)]
            codes = [program.wait() for program in programs]
            struck = stage.scene.struck()
            assert struck, f'never struck: {programs[0].output}'
            row.detected = max(program.ended_at for program in programs) - struck['time']
            row.happened = ', '.join(f'exit {code}' for code in codes)
            for code, program in zip(codes, programs):
                row.expect(code == exit_codes.TERMINATED, program.output)
            said = [re.search(r'(?:saved|resumes) at step (\d+)', program.last_line) for program in programs]
            row.expect(all(said), '\n'.join(program.last_line for program in programs))
            steps = {int(match[1]) for match in said if match}
            row.happened += f' at step {", ".join(map(str, sorted(steps)))}'
            row.expect(len(steps) == 1, 'they ended at different steps')
            row.judge(stage, last_step=max(steps, default=0))
        return row


def cases() -> list:
    return [
        Case('hostile', f'{"two workers" if pair else "one process"} slowing down', name, BecomesSlow(flags, pair))
        for pair in (True, False)
        for name, flags in LOOPS.items()
    ]
