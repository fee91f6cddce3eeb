"""What run_local_cluster.sh has to bear: a console that nobody reads, tasks that print without end, fewer workers,
a cluster without tasks.
"""

import collections
import dataclasses
import json
import os
import sys

import numpy as np

from estimator_trainer import exit_codes
from tests.chaos import files
from tests.chaos.case import Case, Row
from tests.chaos.faults import SUPERVISOR, TRAINING, Fault
from tests.chaos.stage import Stage

JOB = '--job=tests.chaos.chatty_job:job'
LINES = 1000  # of 100 bytes, after each step
CHATTY = (JOB, f'--param=chatter={LINES}')
SLOWLY = '--param=slow_ms=20'  # tasks agree about twice a second
SHORT = ('--lost_peer_secs=5', '--join_timeout_secs=60')

# Runs a command with its output in a pipe or a terminal that is open, and that nobody ever reads.
UNREAD = """
import os, pty, signal, subprocess, sys
reader, writer = {'pipe': os.pipe, 'terminal': pty.openpty}[sys.argv[1]]()
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=writer, stderr=writer)
code = child.wait()
sys.exit(128 - code if code < 0 else code)
"""


@dataclasses.dataclass(frozen=True)
class Unread:
    """Both workers print 100 KB after each step, and nobody reads the console. kill -9 of worker 1, then SIGTERM.

    The gang is restarted, the order is obeyed, and the log files have every line.
    """

    console: str  # pipe or terminal

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        kill = Fault(at='worker:1', moment=TRAINING, step=27)
        stop = Fault(at='worker:0', moment=TRAINING, step=47, signal='SIGTERM', target=SUPERVISOR)
        with Stage(folder, kill, stop) as stage:
            # --model_dir and the plain job's flags come from `cluster`, before which the wrapper is put.
            program = self._start(stage)
            code = program.wait()
            row.happened = f'exit {code}'
            row.expect(code == exit_codes.TERMINATED, f'exit code {code}:\n{program.output}')
            struck = stage.scene.struck(1)
            row.expect(stage.scene.struck(0) and struck, 'not all faults have struck')
            row.detected = program.ended_at - struck['time']
            attempts = json.loads((stage.model_dir / 'report.json').read_text())['attempts']
            row.happened += f' after {len(attempts)} attempts'
            row.expect(
                [attempt['cause'] and (attempt['cause']['task'], attempt['cause']['code']) for attempt in attempts]
                == [('worker:1', 137), None],
                str(attempts),
            )
            row.expect(stage.is_empty(), f'left running: {stage.running()}')
            for task in ('worker-0', 'worker-1'):
                row.problems += incomplete(stage.model_dir / 'logs' / 'attempt-2' / f'{task}.out')
            again = stage.cluster(
                ['--workers=2', '--noevaluator'], JOB, SLOWLY, '--param=chatter=0', '--allow_config_change'
            )
            row.expect(again.wait() == 0, again.output)
            row.judge(stage)
        return row

    def _start(self, stage):
        start = stage.start

        def wrapped(command, **environ):
            return start([sys.executable, '-c', UNREAD, self.console, *command], **environ)

        stage.start = wrapped
        try:
            return stage.cluster(['--workers=2', '--noevaluator'], *SHORT, *CHATTY, SLOWLY)
        finally:
            stage.start = start


def incomplete(path) -> list:
    """What is missing of the lines that a task has printed, from the first of them to the last."""
    seen = collections.Counter()
    for line in path.read_text().splitlines():
        if line.startswith('chatter '):
            seen[int(line.split()[1])] += 1
    if not seen:
        return [f'{path.name} is empty']
    steps = range(min(seen), max(seen) + 1)
    return [f'{path.name}: {seen[step]} lines of step {step}, not {LINES}' for step in steps if seen[step] != LINES]


def chatty(folder, undisturbed) -> Row:
    """Two attempts of tasks that print 10 MB each: their logs are bounded and keep the newest lines."""
    row = Row()
    with Stage(folder, Fault(at='worker:1', moment=TRAINING, step=47)) as stage:
        program = stage.cluster(
            ['--workers=2', '--noevaluator', '--max_log_mb=1', '--keep_attempts=1'], *SHORT, *CHATTY
        )
        code = program.wait()
        logs = stage.model_dir / 'logs'
        row.happened = f'exit {code}, logs in {", ".join(sorted(path.name for path in logs.iterdir()))}'
        row.expect(code == 0, program.output[-6000:])
        row.expect([path.name for path in logs.iterdir()] == ['attempt-2'], row.happened)
        size = sum(path.stat().st_size for path in logs.glob('attempt-2/worker-0.out*'))
        row.expect(500_000 < size <= 1 << 20, f'the log has {size} bytes')
        row.expect(
            f'chatter 100 {LINES - 1} ' in (logs / 'attempt-2' / 'worker-0.out').read_text(),
            'the newest line is not there',
        )
        said = [line for line in program.output.splitlines() if line.startswith('[cluster]')]
        row.said = [
            line for line in said if 'worker-0.out has reached --max_log_mb=1' in line or '(--keep_attempts)' in line
        ]
        row.expect(len(row.said) == 3, f'said {row.said}')  # of each attempt's log, and of the folder
        row.judge(stage)
    return row


def fewer_workers(folder, undisturbed) -> Row:
    """kill -9 of worker 1 twice: the run goes on with worker 0 alone, at the rate that it began with."""
    row = Row()
    flags = (JOB, '--param=scale_rate_with_replicas=true')
    two = undisturbed.other('scaled-two-workers', lambda stage: stage.cluster(['--workers=2', '--noevaluator'], *flags))
    faults = [Fault(at='worker:1', moment=TRAINING, step=step) for step in (36, 38)]
    with Stage(folder, *faults) as stage:
        program = stage.cluster(
            ['--workers=2', '--noevaluator', '--min_workers=1'], *SHORT, *flags, '--param=slow_ms=150'
        )
        code = program.wait()
        row.happened = f'exit {code}'
        row.expect(code == 0, program.output[-6000:])
        attempts = json.loads((stage.model_dir / 'report.json').read_text())['attempts']
        row.happened += f', workers {", ".join(str(attempt["workers"]) for attempt in attempts)}'
        row.expect([attempt['workers'] for attempt in attempts] == [2, 2, 1], program.output[-6000:])
        row.said = [line for line in program.output.splitlines() if 'learning rate:' in line][-1:]
        row.expect(row.said and row.said[0].endswith('x 2 replicas, with which the run began (now 1)'), str(row.said))
        config = json.loads((stage.model_dir / 'config.json').read_text())
        row.expect((config['num_replicas'], config.get('initial_replicas')) == (1, 2), 'config.json has another number')
        row.judge(stage)
        far = farthest(stage.model_dir, two)
        row.equal = far < 1e-4
        row.expect(row.equal, f'a weight is off by {far:g}')
    return row


def farthest(model_dir, other) -> float:
    """The largest difference of a weight in the last checkpoints of two runs."""
    name = files.parts(model_dir, files.named(model_dir))[0]  # its data
    ours, theirs = (
        np.frombuffer(data[: len(data) // 4 * 4], np.float32)
        for data in ((path / name).read_bytes() for path in (model_dir, other))
    )
    return float(np.max(np.abs(ours - theirs)))


def no_tasks(folder, undisturbed) -> Row:
    """Clusters that list nobody: each is refused, by name, and nothing is written."""
    row = Row()
    sync, servers = '--strategy=multi_worker_mirrored', '--strategy=parameter_server'
    worker = {'type': 'worker', 'index': 0}
    with Stage(folder) as stage:
        for cluster, task, flags, says in (
            ({'worker': []}, worker, [sync], 'lists no task'),
            ({}, worker, [sync], 'lists no task'),
            ({'chief': [], 'worker': [], 'ps': []}, worker, [servers], 'lists no task'),
            ({'worker': []}, None, [sync], 'lists no task'),
            ({'worker': None}, worker, [], 'cluster.worker = null'),
            ({'wroker': []}, worker, [], 'did you mean "worker"?'),
            ({'worker': ['a:1', 'b:1']}, {'type': 'worker', 'index': 2}, [sync], 'from 0 to 1'),
        ):
            given = {'cluster': cluster, **({'task': task} if task else {})}
            program = stage.trainer(*flags, TF_CONFIG=json.dumps(given))
            code = program.wait()
            row.happened += f'{", " if row.happened else ""}exit {code}'
            row.expect(code == exit_codes.USAGE and says in program.output, f'{given}:\n{program.output}')
        row.expect(not os.path.exists(stage.model_dir), 'something was written')
    return row


def cases() -> list:
    found = []

    def add(fault, moment, play):
        found.append(Case('hostile', fault, moment, play))

    add('unread pipe, kill -9, SIGTERM', TRAINING, Unread('pipe'))
    add('unread terminal, kill -9, SIGTERM', TRAINING, Unread('terminal'))
    add('tasks that print 10 MB', TRAINING, chatty)
    add('--min_workers, scaled rate', TRAINING, fewer_workers)
    add('a cluster without tasks', 'before', no_tasks)
    return found
