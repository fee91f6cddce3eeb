"""Faults with nobody to look after the tasks: plain `python -m estimator_trainer` processes, TF_CONFIG by hand.

The last lines that tasks print are part of what is shown.
"""

import dataclasses
import os
import signal
import time

from estimator_trainer import exit_codes
from tests.chaos.case import Case, Row
from tests.chaos.faults import EVALUATING, SAVING, START_UP, TRAINING, Fault
from tests.chaos.pairs import BOTH, DEFAULT_BOUND_SECS, link_cut, start_pair, tf_config, two_addresses
from tests.chaos.stage import Stage


@dataclasses.dataclass(frozen=True)
class Survivor:
    """One of two workers is struck dead or stopped; the other has to end by itself.

    Attributes:
        within: seconds from the fault to the survivor's end.
    """

    fault: Fault
    within: float
    flags: tuple = ()

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        struck_task = self.fault.target or self.fault.at
        survivor = BOTH[1 - BOTH.index(struck_task)]
        with Stage(folder, self.fault) as stage, two_addresses() as hosts:
            programs = dict(zip(BOTH, start_pair(stage, hosts, *self.flags)))
            code = programs[survivor].wait()
            struck = stage.scene.struck()
            row.happened, row.said = f'{survivor} exit {code}', [programs[survivor].last_line]
            row.expect(code == exit_codes.LOST_PEER, programs[survivor].output)
            row.expect(struck, 'never struck')
            row.detected = programs[survivor].ended_at - struck['time']
            row.expect(row.detected < self.within, f'it took {row.detected:.1f} s')
            row.expect(
                f'{struck_task} at {hosts[BOTH.index(struck_task)]}' in programs[survivor].last_line,
                f'the last line does not name {struck_task}',
            )
            if self.fault.signal == 'SIGSTOP':
                os.kill(struck['pid'], signal.SIGKILL)
            row.judge(stage, undisturbed.two_workers(), finished=False)
        return row


@dataclasses.dataclass(frozen=True)
class NeverCame:
    """Only one of two workers is started."""

    task: str
    join_secs: int

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage, two_addresses() as hosts:
            began = time.time()
            program = stage.trainer(f'--join_timeout_secs={self.join_secs}', TF_CONFIG=tf_config(self.task, hosts))
            code = program.wait()
            row.detected = program.ended_at - began
            row.happened, row.said = f'{self.task} exit {code}', [program.last_line]
            row.expect(code == exit_codes.NO_PEER, program.output)
            row.expect(row.detected < self.join_secs + 20, f'it took {row.detected:.1f} s')
            row.judge(stage, finished=False)
        return row


@dataclasses.dataclass(frozen=True)
class Preempted:
    """SIGTERM or SIGINT to one of two workers, or to a process of its own: both end at one step, saved.

    The same command again ends with the weights of the undisturbed run.
    """

    fault: Fault
    code: int = exit_codes.TERMINATED
    saves: bool = True  # there is something to save
    flags: tuple = ('--param=slow_ms=20',)  # tasks agree about twice a second

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        pair = self.fault.at != 'trainer'
        with Stage(folder, self.fault) as stage, two_addresses() as hosts:

            def start():
                return start_pair(stage, hosts, *self.flags) if pair else [stage.trainer(*self.flags)]

            first = start()
            codes = [program.wait() for program in first]
            struck = stage.scene.struck()
            row.expect(struck, 'never struck')
            row.detected = max(program.ended_at for program in first) - struck['time']
            row.happened = ', '.join(f'exit {code}' for code in codes)
            for code, program in zip(codes, first):
                expected = code == self.code or (not self.saves and code == exit_codes.LOST_PEER)
                row.expect(expected, program.output)
            if self.saves:
                lasts = {
                    max(event['step'] for event in stage.scene.events(TRAINING) if event['task'] == task)
                    for task in (BOTH if pair else ['trainer'])
                }
                row.happened += f' at step {", ".join(map(str, sorted(lasts)))}'
                row.expect(len(lasts) == 1, 'they ended at different steps')
            again = start()
            for program in again:
                code = program.wait()
                row.happened += f', exit {code}'
                row.expect(code == 0, program.output)
            row.measure(stage.scene)
            row.expect(not self.saves or row.lost == 0, f'{row.lost} steps were lost')
            row.judge(stage, undisturbed.two_workers() if pair else undisturbed.alone())
        return row


@dataclasses.dataclass(frozen=True)
class Died:
    """kill -9 of a process of its own; the same command again."""

    fault: Fault

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder, self.fault) as stage:
            codes = [stage.trainer('--eval_throttle_secs=0').wait() for _ in range(2)]
            row.happened = ', '.join(f'exit {code}' for code in codes)
            row.expect(codes == [137, 0], stage.programs[-1].output)
            row.measure(stage.scene)
            row.judge(stage, undisturbed.alone())
        return row


def second_signal(folder, undisturbed) -> Row:
    """A second Ctrl-C while the task waits for the step to end: it ends at once."""
    row = Row()
    with Stage(folder, Fault(at='trainer', moment=TRAINING, step=2, signal='SIGINT')) as stage:
        program = stage.trainer('--param=slow_ms=20000')
        program.says('received Ctrl-C')
        sent = time.time()
        program.send(signal.SIGINT)
        code = program.wait()
        row.detected = program.ended_at - sent
        row.happened, row.said = f'exit {code}', [program.last_line]
        row.expect(code == exit_codes.NOT_SAVED, program.output)
        row.expect(row.detected < 10, f'it took {row.detected:.1f} s')
        row.judge(stage, finished=False)
    return row


def too_slow_to_save(folder, undisturbed) -> Row:
    """A step takes longer than the grace period."""
    row = Row()
    with Stage(folder, Fault(at='trainer', moment=TRAINING, step=2, signal='SIGTERM')) as stage:
        program = stage.trainer('--param=slow_ms=20000', '--grace_secs=3')
        code = program.wait()
        row.happened, row.said = f'exit {code}', [program.last_line]
        row.expect(code == exit_codes.NOT_SAVED, program.output)
        row.judge(stage, finished=False)
    return row


def cases() -> list:
    found = []

    def add(fault, moment, play):
        found.append(Case('alone', fault, moment, play))

    for task in BOTH:
        kill = Fault(at=task, moment=TRAINING, step=47)
        add(f'kill -9 {task}', TRAINING, Survivor(kill, DEFAULT_BOUND_SECS))
    add('kill -9 worker:0', SAVING, Survivor(Fault(at='worker:0', moment=SAVING, step=60), DEFAULT_BOUND_SECS))
    add('kill -9 worker:1', START_UP, Survivor(Fault(at='worker:1', moment=START_UP), DEFAULT_BOUND_SECS))
    for task in BOTH:
        stop = Fault(at=task, moment=TRAINING, step=47, signal='SIGSTOP')
        add(f'SIGSTOP {task}', TRAINING, Survivor(stop, DEFAULT_BOUND_SECS))
    add(
        'SIGSTOP worker:1',
        START_UP,
        Survivor(Fault(at='worker:1', moment=START_UP, signal='SIGSTOP'), DEFAULT_BOUND_SECS),
    )
    add('worker:1 never starts', '', NeverCame('worker:0', 15))
    add('worker:0 never starts', '', NeverCame('worker:1', 15))
    add('worker:1 never starts', '60 s (default)', NeverCame('worker:0', 60))
    add('link cut for good', TRAINING, link_cut(None))
    add('link cut for 5 s', TRAINING, link_cut(5))
    for task in BOTH:
        add(f'SIGTERM {task}', TRAINING, Preempted(Fault(at=task, moment=TRAINING, step=47, signal='SIGTERM')))
    add('SIGTERM worker:1', START_UP, Preempted(Fault(at='worker:1', moment=START_UP, signal='SIGTERM'), saves=False))
    add(
        'SIGINT worker:1',
        TRAINING,
        Preempted(Fault(at='worker:1', moment=TRAINING, step=47, signal='SIGINT'), exit_codes.INTERRUPTED),
    )
    for moment, step in ((TRAINING, 47), (SAVING, 60)):
        add('SIGTERM one process', moment, Preempted(Fault(at='trainer', moment=moment, step=step, signal='SIGTERM')))
        add('kill -9 one process', moment, Died(Fault(at='trainer', moment=moment, step=step)))
    for moment in (START_UP, EVALUATING):
        add(
            'SIGTERM one process',
            moment,
            Preempted(Fault(at='trainer', moment=moment, step=0, signal='SIGTERM'), saves=False),
        )
        add('kill -9 one process', moment, Died(Fault(at='trainer', moment=moment)))
    add('SIGINT twice', TRAINING, second_signal)
    add('SIGTERM, steps too long', TRAINING, too_slow_to_save)
    return found
