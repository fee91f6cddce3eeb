"""Early stopping: everybody ends at one step, soon; and no restart forgets how long it has been waited."""

import dataclasses
import json

from tests.chaos.case import Case, Row
from tests.chaos.faults import EVALUATING, TRAINING, Fault
from tests.chaos.stage import Stage

BOUND_SECS = 150  # from the decision to the end of the last task
NEVER = 100_000  # steps
PATIENCE = 4


@dataclasses.dataclass(frozen=True)
class Stops:
    """Two workers and an evaluator, whose loss is never good enough after its first evaluation.

    So that the decision falls at evaluation 1 + PATIENCE, whatever happens in between. `again`: the same
    command again has nothing to do.
    """

    faults: tuple = ()
    again: bool = True

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder, *self.faults) as stage:
            flags = (
                f'--max_steps={NEVER}',
                '--param=slow_ms=40',
                '--stop_metric=loss',
                '--stop_min_delta=100',
                f'--stop_patience={PATIENCE}',
            )
            program = stage.cluster(['--workers=2'], *flags)
            code = program.wait()
            row.expect(code == 0, f'exit code {code}:\n{program.output}')
            verdict = stage.model_dir / 'eval' / 'stop.json'
            row.expect(verdict.exists(), 'nothing was decided')
            row.detected = program.ended_at - verdict.stat().st_mtime
            row.expect(row.detected < BOUND_SECS, f'it took {row.detected:.1f} s from the decision')
            report = json.loads((stage.model_dir / 'report.json').read_text())
            ends = {task['name']: task['code'] for task in report['attempts'][-1]['tasks']}
            row.expect(set(ends.values()) == {0}, f'the tasks ended with {ends}')
            steps = {
                task: max(event['step'] for event in stage.scene.events(TRAINING) if event['task'] == task)
                for task in ('worker:0', 'worker:1')
            }
            step = max(steps.values())
            row.expect(len(set(steps.values())) == 1, f'the last steps are {steps}')
            row.happened = f'{report["restarts"]} restart(s), all exit 0 at step {step}'
            row.expect(report['restarts'] == len(self.faults), f'{report["restarts"]} restarts')
            if self.faults:
                row.measure(stage.scene)
            lines = (stage.model_dir / 'eval' / 'metrics.jsonl').read_text().splitlines()
            evaluated = sorted({json.loads(line)['step'] for line in lines})
            decided = json.loads(verdict.read_text())
            row.said.append(f'evaluated {", ".join(map(str, evaluated))}; decided at step {decided["step"]}')
            row.expect(decided['step'] == evaluated[PATIENCE], 'it was not decided when it was due')
            if self.again:
                self._play_again(row, stage, flags, step)
            row.judge(stage, last_step=step)
        return row

    @staticmethod
    def _play_again(row, stage, flags, step):
        program = stage.cluster(['--workers=2'], *flags)
        row.expect(program.wait() == 0, program.output)
        last = max(event['step'] for event in stage.scene.events(TRAINING))
        row.happened += f'; again: exit {program.poll()} at step {last}'
        row.expect(last == step, 'the same command again has trained on')


def cases() -> list:
    kill = Fault(at='evaluator:0', moment=EVALUATING, step=40, target='worker:1')
    return [
        Case('stopping', 'early stopping', '', Stops()),
        Case('stopping', 'early stopping', 'kill -9 worker:1', Stops((kill,))),
    ]
