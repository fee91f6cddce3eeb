"""Faults under run_local_cluster.sh: the matrix of who is struck how, and when; and twenty kills at random."""

import dataclasses
import json

from tests.chaos.case import EVERY_STEP, Case, Row
from tests.chaos.faults import EVALUATING, IMPORT, SAVING, START_UP, SUPERVISOR, TRAINING, Fault
from tests.chaos.stage import MAX_STEPS, Stage

SHORT = ('--lost_peer_secs=5', '--join_timeout_secs=20')
SYNC = ('--workers=2',)
ASYNC = ('--workers=2', '--ps=1')
TWO_PS = ('--workers=2', '--ps=2')
TABLE = '--param=table_rows=40'  # in parts on both of them
IN_STEP = (*SHORT, TABLE, '--sync_ps')
ALONE = ('--workers=2', '--noevaluator')
SERVERS = {ASYNC: ' (ps)', TWO_PS: ' (2 ps)'}


@dataclasses.dataclass(frozen=True)
class Struck:
    """One run under a supervisor, and the same command again where that has to end.

    Attributes:
        codes: of the supervisor, each time that it is run.
        cause: of the first attempt that failed: the task's name and its code; None: nothing failed that
            the gang did not survive.
        alone: the task that is restarted alone.
    """

    fault: Fault
    shape: tuple = SYNC
    codes: tuple = (0,)
    cause: tuple | None = None
    alone: str = ''
    flags: tuple = SHORT

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        compared = self._compared(undisturbed)
        happened = []
        with Stage(folder, self.fault) as stage:
            for code in self.codes:
                program = stage.cluster(self.shape, *self.flags)
                found = program.wait()
                row.expect(stage.is_empty(), f'left running 5 s after the end: {stage.running()}')
                happened += [*_story(stage, program.pid), f'exit {found}']
                if len(happened) == 1 or row.detected is None:
                    row.detected = self._detected(stage)
                if found != code:
                    row.problems.append(f'exit code {found}, not {code}:\n{program.output[-6000:]}')
                    break
            row.happened = ', '.join(happened)
            target = self.fault.target or self.fault.at
            row.measure(stage.scene, whose=target)
            self._judge_cause(row, stage)
            row.judge(stage, compared, last_step=MAX_STEPS if compared else 0)
        return row

    def _compared(self, undisturbed):
        if '--sync_ps' in self.flags:
            return undisturbed.other(
                'in-step', lambda stage: stage.cluster((*self.shape, '--noevaluator'), *EVERY_STEP, *self.flags)
            )
        return undisturbed.two_workers() if self.shape not in (ASYNC, TWO_PS) else None

    def _detected(self, stage):
        """Seconds to the first end of a task that is in the report; without one, to the end of all."""
        struck = stage.scene.struck()
        if struck is None:
            return None
        if self.fault.target == SUPERVISOR:
            return self._gone_after(stage, struck)
        ends = [
            attempt['started'] + task['secs']
            for attempt in _attempts(stage)
            for task in attempt['tasks']
            if task['code']
        ]
        return max(0.0, min(ends) - struck['time']) if ends else None

    @staticmethod
    def _gone_after(stage, struck):
        return max(program.ended_at for program in stage.programs) - struck['time']

    def _judge_cause(self, row, stage):
        attempts = _attempts(stage)
        if self.cause and attempts:
            cause = attempts[0]['cause'] or {}
            found = cause.get('task'), cause.get('code')
            row.expect(found == self.cause, f'the cause is {found}, not {self.cause}')
        if self.alone:
            lives = {task['name']: task['life'] for attempt in attempts for task in attempt['tasks']}
            row.expect(
                len(attempts) == 1 and lives.get(self.alone) == 2, f'{self.alone} was not restarted alone: {lives}'
            )


def _attempts(stage):
    """Those of the last report.json."""
    try:
        return json.loads((stage.model_dir / 'report.json').read_text())['attempts']
    except FileNotFoundError:
        return []


def _story(stage, supervisor):
    """What the supervisor has reported of its run, in short."""
    told = []
    status = json.loads((stage.model_dir / 'status.json').read_text())
    if status['pid'] != supervisor or status['state'] not in ('done', 'stopped', 'failed'):
        return told  # it did not live to tell
    for attempt in _attempts(stage):
        again = [
            f'{task["name"]} {task["code"]}, back alone'
            for task in attempt['tasks']
            if task['code']
            and task['how'] == 'by itself'
            and any((other['name'], other['life']) == (task['name'], task['life'] + 1) for other in attempt['tasks'])
        ]
        told += again
        if attempt['cause']:
            told.append(
                f'{attempt["cause"]["task"]} {attempt["cause"]["code"]}'
                + (', restart' if attempt['decision'] == 'restart' else '')
            )
    return told


def _case(signal_name, target, moment, **kwargs) -> Case:
    """The fault at that moment of whoever has it: the target itself, the chief or the evaluator."""
    shape = kwargs.get('shape', SYNC)
    chief = 'chief:0' if shape in SERVERS else 'worker:0'
    where = {
        IMPORT: dict(at=target),
        START_UP: dict(at=chief if target == SUPERVISOR or target.startswith('ps') else target),
        TRAINING: dict(at=chief, step=47),
        SAVING: dict(at=chief, step=60),
        EVALUATING: dict(at='evaluator:0', step=1, by_step=90),
    }[moment]
    last = '--noevaluator' in shape and moment == EVALUATING
    if last:
        where = dict(at='worker:0')
    fault = Fault(moment=moment, signal=signal_name, target='' if where['at'] == target else target, **where)
    shown = 'last evaluation' if last else moment
    if kwargs.get('flags') == ():
        shown += ', 30 s'
    how = {'SIGKILL': 'kill -9', 'SIGSTOP': 'SIGSTOP', 'SIGTERM': 'SIGTERM'}[signal_name]
    servers = ' (--sync_ps)' if '--sync_ps' in kwargs.get('flags', ()) else SERVERS.get(shape, '')
    return Case('matrix', f'{how} {target}{servers}', shown, Struck(fault, **kwargs))


def cases() -> list:
    """The matrix."""
    found = []
    four = (START_UP, TRAINING, SAVING, EVALUATING)
    for worker in ('worker:0', 'worker:1'):
        found += [_case('SIGKILL', worker, moment, cause=(worker, 137)) for moment in (IMPORT, *four)]
        found.append(_case('SIGKILL', worker, EVALUATING, shape=ALONE, cause=(worker, 137)))
    found += [_case('SIGKILL', 'evaluator:0', moment, alone='evaluator:0') for moment in (IMPORT, *four)]
    found += [_case('SIGKILL', 'ps:0', moment, shape=ASYNC, cause=('ps:0', 137)) for moment in (IMPORT, *four)]
    slowly = ('--param=slow_ms=200',)  # so that there is something left to do for who comes back
    found += [
        _case('SIGKILL', 'worker:0', TRAINING, shape=ASYNC, alone='worker:0', flags=slowly),
        _case('SIGKILL', 'chief:0', TRAINING, shape=ASYNC, cause=('chief:0', 137)),
    ]
    found += [
        _case('SIGKILL', 'ps:1', TRAINING, shape=TWO_PS, cause=('ps:1', 137), flags=(*SHORT, TABLE)),
        _case('SIGKILL', 'worker:0', TRAINING, shape=TWO_PS, alone='worker:0', flags=(*slowly, TABLE)),
        _case('SIGKILL', 'chief:0', SAVING, shape=TWO_PS, cause=('chief:0', 137), flags=(*SHORT, TABLE)),
        _case('SIGKILL', 'worker:0', TRAINING, shape=TWO_PS, cause=('worker:0', 137), flags=IN_STEP),
    ]
    found += [_case('SIGKILL', SUPERVISOR, moment, codes=(137, 0)) for moment in four]
    found.append(_case('SIGSTOP', 'worker:1', IMPORT, cause=('worker:1', 194)))
    found += [_case('SIGSTOP', 'worker:1', moment, cause=('worker:1', 193)) for moment in four]
    found += [_case('SIGSTOP', 'worker:0', moment, cause=('worker:0', 193)) for moment in (TRAINING, SAVING)]
    found.append(_case('SIGSTOP', 'worker:1', TRAINING, cause=('worker:1', 193), flags=()))
    # All is done, but for their end: nothing to restart for.
    impatient = '--drain_secs=10'
    found += [
        _case('SIGSTOP', 'worker:1', EVALUATING, shape=(*ALONE, impatient), codes=(1,)),
        _case('SIGSTOP', 'evaluator:0', EVALUATING, shape=(*SYNC, impatient), codes=(1,)),
    ]
    agreeing = (*SHORT, '--param=slow_ms=20')  # tasks agree about twice a second
    for worker in ('worker:0', 'worker:1'):
        found += [_case('SIGTERM', worker, moment, cause=(worker, 143), flags=agreeing) for moment in (IMPORT, *four)]
    found += [_case('SIGTERM', SUPERVISOR, moment, codes=(143, 0), flags=agreeing) for moment in four]
    return found
