"""Many kills at random moments of one run."""

import collections
import dataclasses
import os
import random
import signal
import time

from estimator_trainer.run_dir import protocol
from tests.chaos import faults
from tests.chaos.case import Case, Row
from tests.chaos.faults import TRAINING, Fault
from tests.chaos.stage import MAX_STEPS, Stage

TASKS = ('worker:0', 'worker:1', 'evaluator:0')


@dataclasses.dataclass(frozen=True)
class Kills:
    """kill -9 of a task of a run of two workers, `count` times. The run ends no earlier.

    The seed decides whom and when: within twice the time that this machine takes to come to the first
    step. What the task is doing then is chance.
    """

    count: int
    seed: int

    def __call__(self, folder, undisturbed) -> Row:
        row, rng = Row(), random.Random(self.seed)
        met = collections.Counter()
        with Stage(folder, Fault(at='', moment='', by_step=MAX_STEPS - 5)) as stage:
            program = stage.cluster(
                ['--workers=2', f'--max_restarts={self.count}', '--backoff_secs=0'], '--param=slow_ms=100'
            )
            began = time.time()
            faults.until(lambda: stage.scene.events(TRAINING), 'no step')
            start_secs = time.time() - began
            for _ in range(self.count):
                met[self._kill(stage, program, rng.choice(TASKS), rng.uniform(0, 2 * start_secs))] += 1
            stage.scene.release()
            code = program.wait()
            row.expect(code == 0, f'exit code {code}:\n{program.output}')
            restarts = protocol.read_json(str(stage.model_dir / 'report.json')).get('restarts')
            row.happened = f'{restarts} restarts of the gang, exit {code}'
            row.said.append(
                'killed: ' + ', '.join(f'{task} at {moment} {often} x' for (task, moment), often in sorted(met.items()))
            )
            row.lost = lost_steps(stage.scene)
            row.judge(stage, undisturbed.two_workers())
        return row

    @staticmethod
    def _kill(stage, program, target, secs):
        """Kills a task `secs` after it is there, and waits until the supervisor has seen that.

        Returns the task, and what it was doing.
        """

        def pid():
            status = protocol.read_json(str(stage.model_dir / 'status.json'))
            assert program.poll() is None, program.output
            return next((task['pid'] for task in status.get('tasks', []) if task['name'] == target), None)

        def alive():
            found = pid()
            return found in stage.running() and found

        faults.until(alive, f'{target} does not run')
        time.sleep(secs)  # chance
        victim = faults.until(alive, f'{target} does not run')
        doing = [event['event'] for event in stage.scene.events() if event['pid'] == victim]
        os.kill(victim, signal.SIGKILL)
        faults.until(lambda: pid() != victim, f'nobody has seen that {target} is dead')
        return target, doing[-1] if doing else 'start'


def lost_steps(scene) -> int:
    """Steps that the chief has done more than once."""
    steps = [event['step'] for event in scene.events(TRAINING) if event['task'] == 'worker:0']
    return len(steps) - len(set(steps))


def cases(count: int, seed: int) -> list:
    return [Case('chance', f'{count} x kill -9', f'random, seed {seed}', Kills(count, seed))]
