"""Tasks that stand still for a while and go on: nobody is lost, and all end with 0."""

import dataclasses
import json
import signal
import time

from tests.chaos import faults, hostile_job, pairs
from tests.chaos.case import Case, Row
from tests.chaos.faults import TRAINING
from tests.chaos.hostile_blame import CHIEF, WORKER, job_flags
from tests.chaos.stage import REPOSITORY, Stage

PAUSE_SECS = 40  # more than --lost_peer_secs by default
AWAY = 'name-server-is-away'
NAME_SERVER = f'''
"""While the file {AWAY} is there, no name can be resolved; to find that out takes a while."""
import os, pathlib, socket, time

resolve = socket.getaddrinfo

def getaddrinfo(host, port, *args, **kwargs):
    numeric = (kwargs.get('flags', 0) or (args[3:4] or [0])[0]) & socket.AI_NUMERICHOST
    if (pathlib.Path(os.environ['{faults.FOLDER}']) / '{AWAY}').exists() and not numeric:
        time.sleep(2)
        raise socket.gaierror(socket.EAI_AGAIN, 'Temporary failure in name resolution')
    return resolve(host, port, *args, **kwargs)

socket.getaddrinfo = getaddrinfo
'''


def _end_well(row, programs) -> None:
    codes = [program.wait() for program in programs]
    row.happened = ', '.join(f'{task} exit {code}' for task, code in zip(pairs.BOTH, codes))
    row.said = [program.last_line for code, program in zip(codes, programs) if code]
    row.expect(codes == [0, 0], '\n'.join(program.output for program in programs))


@dataclasses.dataclass(frozen=True)
class HoldsTheLock:
    """C code of the job holds Python's global lock, in the midst of a probe of the peers."""

    task: str
    secs: int = PAUSE_SECS
    flags: tuple = ()

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage, pairs.two_addresses() as hosts:
            programs = pairs.start_pair(
                stage,
                hosts,
                *self.flags,
                *job_flags(where=hostile_job.HOLDS_THE_GIL, task=self.task, secs=self.secs, slow_ms=20),
            )
            _end_well(row, programs)
            row.judge(stage)
        return row


def holds_the_lock_before_an_evaluator(folder, undisturbed) -> Row:
    """The same on a chief whose evaluator reads in a file whether it lives."""
    row = Row()
    with Stage(folder) as stage:
        program = stage.cluster(
            ['--workers=2', '--max_restarts=0'],
            *job_flags(where=hostile_job.HOLDS_THE_GIL, task=CHIEF, secs=PAUSE_SECS, slow_ms=20),
        )
        code = program.wait()
        row.happened = f'exit {code}'
        row.expect(code == 0, program.output)
        report = json.loads((stage.model_dir / 'report.json').read_text())
        lives = [task['life'] for attempt in report['attempts'] for task in attempt['tasks']]
        row.expect(lives == [1, 1, 1], f'a task was restarted: {lives}')
        row.judge(stage)
    return row


@dataclasses.dataclass(frozen=True)
class Stopped:
    """SIGSTOP of some tasks, and SIGCONT after a while."""

    tasks: tuple
    flags: tuple = ('--lost_peer_secs=120',)
    secs: float = PAUSE_SECS

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage, pairs.two_addresses() as hosts:
            programs = dict(zip(pairs.BOTH, pairs.start_pair(stage, hosts, *self.flags, '--param=slow_ms=50')))
            faults.until(lambda: any(event['step'] >= 30 for event in stage.scene.events(TRAINING)), 'no step 30')
            for task in self.tasks:
                programs[task].send(signal.SIGSTOP)
            time.sleep(self.secs)  # it is the fault
            for task in self.tasks:
                programs[task].send(signal.SIGCONT)
            _end_well(row, list(programs.values()))
            row.judge(stage, undisturbed and undisturbed.two_workers())
        return row


def without_a_name_server(folder, undisturbed) -> Row:
    """From step 10 on no name can be resolved, for longer than --lost_peer_secs. The peers have names."""
    row = Row()
    with Stage(folder) as stage, pairs.two_addresses() as hosts:
        site = stage.folder / 'site'
        site.mkdir()
        (site / 'sitecustomize.py').write_text(NAME_SERVER)
        named = [address.replace('127.0.0.1', 'localhost') for address in hosts]
        programs = [
            stage.trainer(
                '--param=slow_ms=200',
                '--lost_peer_secs=5',
                PYTHONPATH=f'{site}:{REPOSITORY}',
                TF_CONFIG=pairs.tf_config(task, named),
            )
            for task in pairs.BOTH
        ]
        faults.until(lambda: any(event['step'] >= 10 for event in stage.scene.events(TRAINING)), 'no step 10')
        (stage.folder / AWAY).touch()
        _end_well(row, programs)
        row.judge(stage, undisturbed.two_workers())
    return row


def cases() -> list:
    found = []

    def add(fault, moment, play):
        found.append(Case('hostile', fault, moment, play))

    for task in pairs.BOTH:
        add(f'lock held 40 s by {task}', TRAINING, HoldsTheLock(task))
    add('lock held 40 s, evaluator', TRAINING, holds_the_lock_before_an_evaluator)
    for tasks in ((WORKER,), (CHIEF,), (CHIEF, WORKER)):
        add(f'stopped 40 s: {"+".join(tasks)}', TRAINING, Stopped(tasks))
    add('stopped 100 s: both', '30 s (default)', Stopped((CHIEF, WORKER), (), 100))
    add('no name server', TRAINING, without_a_name_server)
    return found
