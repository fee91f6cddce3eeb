"""Hostile jobs by their data: large arrays, no garbage collector, evaluations of sparse and ragged features."""

import dataclasses
import json
import re
import shutil

from tests.chaos.case import Case, Row
from tests.chaos.stage import Stage

DATA_JOB = ('--job=tests.chaos.data_job:job', '--export=none')
BALLAST_MB = 10
OBJECTS = 300  # that 500 steps in ten seconds may leave for good


def large_arrays(folder, undisturbed) -> Row:
    """What a run writes down beside its weights holds no data."""
    row = Row()
    with Stage(folder) as stage:
        program = stage.trainer(*DATA_JOB, f'--param=ballast_mb={BALLAST_MB}', '--max_steps=40')
        code = program.wait()
        row.expect(code == 0, program.output)
        files = [path for path in stage.model_dir.rglob('*') if path.is_file()]
        written = sum(path.stat().st_size for path in files)
        row.happened = f'exit {code}, {written / 2**20:.1f} MiB in the model_dir'
        row.expect(written < 2**20 * BALLAST_MB / 2, '\n'.join(f'{path.stat().st_size} {path.name}' for path in files))
        row.judge(stage, last_step=40)
    return row


def no_garbage_collector(folder, undisturbed) -> Row:
    """Ten seconds of training leave no objects behind that only the garbage collector would free."""
    row = Row()
    with Stage(folder) as stage:
        program = stage.trainer(*DATA_JOB, '--param=gc_off=true', '--param=slow_ms=20', '--max_steps=710')
        code = program.wait()
        row.expect(code == 0, program.output)
        counts = [int(count) for count in re.findall(r'objects at step \d+: (\d+)', program.output)]
        assert len(counts) == 2, program.output
        row.happened = f'exit {code}, {counts[-1] - counts[0]} objects more after 500 steps'
        row.expect(counts[-1] - counts[0] < OBJECTS, 'objects pile up')
        row.judge(stage, last_step=710)
    return row


@dataclasses.dataclass(frozen=True)
class EvaluatesOnReplicas:
    """Two replicas evaluate sparse and ragged features, one of them without examples in the last step. Their
    results are those of one process."""

    loop: str

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        flags = (*DATA_JOB, '--param=kinds=true', f'--loop={self.loop}', '--num_replicas=2', '--max_steps=40')
        with Stage(folder) as stage:
            codes, results = [], []
            for more in (('--eval_strategy=mirrored',), ()):
                shutil.rmtree(stage.model_dir / 'eval', ignore_errors=True)  # so that it evaluates again
                program = stage.trainer(*flags, *more)
                codes.append(program.wait())
                row.expect(codes[-1] == 0, program.output)
                if codes[-1]:
                    break
                line = (stage.model_dir / 'eval' / 'metrics.jsonl').read_text().splitlines()[-1]
                results.append(
                    {name: value for name, value in json.loads(line).items() if name in ('loss', 'accuracy')}
                )
            row.happened = ', '.join(f'exit {code}' for code in codes)
            row.said = [f'{result}' for result in results]
            row.expect(
                len(results) == 2
                and all(abs(results[0][name] - results[1][name]) < 1e-5 for name in ('loss', 'accuracy')),
                'they differ',
            )
            row.judge(stage, finished=codes == [0, 0], last_step=40)
        return row


def cases() -> list:
    return [
        Case('hostile', f'{BALLAST_MB} MiB of arrays', 'the graph', large_arrays),
        Case('hostile', 'gc.disable()', 'training', no_garbage_collector),
        *(
            Case('hostile', 'sparse data on replicas', loop, EvaluatesOnReplicas(loop))
            for loop in ('estimator', 'keras_fit', 'custom_loop')
        ),
    ]
