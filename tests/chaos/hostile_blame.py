"""The job's own code fails in one task of several: that task says so and ends with 1, the others name it."""

import dataclasses
import json
import os
import signal

from estimator_trainer import exit_codes
from estimator_trainer.supervisor.processes import ports
from tests.chaos import hostile_job, pairs
from tests.chaos.case import Case, Row
from tests.chaos.faults import TRAINING, Fault
from tests.chaos.stage import Stage

CHIEF, WORKER = pairs.BOTH
JOB = '--job=tests.chaos.hostile_job:job'


def job_flags(**params) -> list:
    return [JOB, *(f'--param={name}={value}' for name, value in params.items())]


def _expect_own(row, program, raises) -> None:
    """The task whose code has failed."""
    code = program.wait()
    row.happened += f'{WORKER} exit {code}'
    row.said.append(program.last_line)
    row.expect(code == exit_codes.FAILED, program.output)
    row.expect('Traceback' in program.output and hostile_job.TEXT in program.output, 'no traceback')
    row.expect(
        raises in program.last_line and hostile_job.TEXT in program.last_line,
        f'the last line does not tell of {raises}',
    )


@dataclasses.dataclass(frozen=True)
class Own:
    """Two workers by hand. `loop`: what trains them."""

    where: str
    raises: str
    loop: str = 'estimator'

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage, pairs.two_addresses() as hosts:
            chief, worker = pairs.start_pair(
                stage, hosts, f'--loop={self.loop}', *job_flags(where=self.where, raises=self.raises)
            )
            _expect_own(row, worker, self.raises)
            code = chief.wait()
            row.happened += f', {CHIEF} exit {code}'
            row.said.append(chief.last_line)
            row.detected = chief.ended_at - worker.ended_at
            row.expect(code == exit_codes.LOST_PEER, chief.output)
            row.expect(WORKER in chief.last_line, f'the last line does not name {WORKER}')
            row.judge(stage, finished=False)
        return row


@dataclasses.dataclass(frozen=True)
class Supervised:
    """The supervisor blames the task whose code has failed, and tries once more: an exception may be bad luck."""

    where: str
    raises: str
    lingers: int = 0  # seconds for which the task goes on after that

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage:
            program = stage.cluster(
                ['--workers=2', '--noevaluator'], *job_flags(where=self.where, raises=self.raises, lingers=self.lingers)
            )
            code = program.wait()
            report = json.loads((stage.model_dir / 'report.json').read_text())
            found = [attempt['cause'] or {} for attempt in report['attempts']]
            causes = [(cause.get('task'), cause.get('code')) for cause in found]
            row.happened = ', '.join([' '.join(map(str, cause)) for cause in causes] + [f'exit {code}'])
            row.said = [str(found[-1].get('message'))]
            row.expect(code == exit_codes.FAILED, program.output)
            row.expect(causes == [(WORKER, exit_codes.FAILED)] * 2, f'the causes are {causes}')
            row.expect(hostile_job.TEXT in row.said[0], 'the report does not tell what has failed')
            row.judge(stage, finished=False)
        return row


def while_the_chief_is_stopped(folder, undisturbed) -> Row:
    """A hook of worker 1 fails at a moment at which the chief does not answer."""
    row = Row()
    fault = Fault(at=WORKER, moment=TRAINING, step=20, target=CHIEF, signal='SIGSTOP')
    with Stage(folder, fault) as stage, pairs.two_addresses() as hosts:
        chief, worker = pairs.start_pair(
            stage, hosts, *job_flags(where=hostile_job.HOOK, raises='InternalError', at=fault.step)
        )
        _expect_own(row, worker, 'InternalError')
        chief.send(signal.SIGKILL)
    return row


def beside_a_parameter_server(folder, undisturbed) -> Row:
    """A generator of a worker fails; the chief trains on."""
    row = Row()
    roles = ('chief:0', 'worker:0', 'ps:0')
    with Stage(folder) as stage, ports.claim(len(roles)) as claimed:
        cluster = {task.partition(':')[0]: [f'127.0.0.1:{port}'] for task, port in zip(roles, claimed.ports)}
        programs = {}
        for task in roles:
            place = {'cluster': cluster, 'task': {'type': task.partition(':')[0], 'index': 0}}
            programs[task] = stage.trainer(
                *job_flags(where=hostile_job.GENERATOR, raises='KeyError', task='worker:0', at=5, slow_ms=20),
                '--lost_peer_secs=5',
                TF_CONFIG=json.dumps(place),
            )
        _expect_own(row, programs['worker:0'], 'KeyError')
        code = programs['chief:0'].wait()
        row.happened += f', chief exit {code}'
        row.expect(code == 0, programs['chief:0'].output)
        row.expect(programs['ps:0'].wait() == exit_codes.LOST_PEER, programs['ps:0'].output)
        row.judge(stage)
    return row


def a_disk_of_its_own(folder, undisturbed) -> Row:
    """A Python function of the input pipeline finds a disk full, which is not the model_dir's."""
    row = Row()
    with Stage(folder) as stage, pairs.two_addresses() as hosts:
        _, worker = pairs.start_pair(stage, hosts, *job_flags(where=hostile_job.PY_FUNCTION, raises='ENOSPC'))
        _expect_own(row, worker, os.strerror(28))
    return row


def cases() -> list:
    found = []

    def add(fault, moment, play):
        found.append(Case('hostile', fault, moment, play))

    generator, hook = hostile_job.GENERATOR, hostile_job.HOOK
    add('KeyError', generator, Own(generator, 'KeyError'))
    add('KeyError, supervisor', generator, Supervised(generator, 'KeyError'))
    add('OSError', 'numpy_function', Own(hostile_job.NUMPY_FUNCTION, 'OSError'))
    add('ConnectionResetError', 'py_function', Own(hostile_job.PY_FUNCTION, 'ConnectionResetError'))
    for raises in ('InternalError', 'FailedPreconditionError', 'UnavailableError'):
        add(raises, hook, Own(hook, raises))
    add('InternalError, supervisor', hook, Supervised(hook, 'InternalError'))
    add('KeyError, leaves slowly', generator, Supervised(generator, 'KeyError', lingers=20))
    for loop in ('keras_fit', 'custom_loop'):
        add(f'KeyError, {loop}', generator, Own(generator, 'KeyError', loop))
    add('OSError, keras_fit', 'py_function', Own(hostile_job.PY_FUNCTION, 'OSError', 'keras_fit'))
    add('InternalError, peer stopped', hook, while_the_chief_is_stopped)
    add('KeyError (ps)', generator, beside_a_parameter_server)
    add("disk full, not model_dir's", 'py_function', a_disk_of_its_own)
    return found
