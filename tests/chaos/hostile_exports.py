"""Processes that are killed, disks that fill and jobs that fail within the evaluation of a checkpoint.

The same command again must do exactly what is missing: the evaluations, the exports and the decision to stop
early are compared with those of a run that nothing disturbed.
"""

import contextlib
import dataclasses
import json
import os
import pathlib

from estimator_trainer import exit_codes
from tests.chaos import disks, files
from tests.chaos.case import Case, Row
from tests.chaos.exporting_job import BEST, BEST_JSON, DECISION, DONE, FILL, FINAL, KILL, LINE, RAISE, STRIKE
from tests.chaos.stage import MAX_STEPS, SAVE_STEPS, Stage

JOB = ('--job=tests.chaos.exporting_job:job', '--eval_throttle_secs=0')
_STOPS = ('--stop_metric=loss', '--stop_patience=1', '--stop_min_delta=10')  # after the second evaluation
EVALUATIONS = MAX_STEPS // SAVE_STEPS
_CODES = {KILL: 128 + 9, FILL: exit_codes.CANNOT_WRITE, RAISE: exit_codes.FAILED}
_DISK_MB = 16


@dataclasses.dataclass(frozen=True)
class What:
    """What the evaluations of a run have left.

    Attributes:
        evaluations: (step, metrics) of each line, in their order.
        bests, finals: how many SavedModels there are.
        best: (step, value) of best.json.
        stop: eval/stop.json.
        others: files that should not be there.
    """

    evaluations: list
    bests: int
    finals: int
    best: tuple
    stop: dict | None
    others: list

    @classmethod
    def of(cls, model_dir) -> 'What':
        model_dir = pathlib.Path(model_dir)
        lines = [json.loads(line) for line in (model_dir / 'eval/metrics.jsonl').read_text().splitlines()]
        best = json.loads(_read(model_dir / 'export/best/best.json') or '{}')
        stop = _read(model_dir / 'eval/stop.json')
        found = {
            name: os.listdir(model_dir / 'export' / name) if (model_dir / 'export' / name).exists() else []
            for name in (BEST, FINAL)
        }
        return cls(
            [
                (line['step'], {name: value for name, value in line.items() if name not in ('time', 'kind', 'step')})
                for line in lines
            ],
            *(sum(name.isdigit() for name in found[which]) for which in (BEST, FINAL)),
            best=(best.get('step'), best.get('value')),
            stop=stop and json.loads(stop),
            others=[
                f'{which}/{name}'
                for which, names in found.items()
                for name in names
                if not name.isdigit() and name != 'best.json'
            ],
        )

    def problems(self, step: int | None) -> list:
        """What is wrong with any run whose last checkpoint is of `step`."""
        steps = [at for at, _ in self.evaluations]
        found = []
        if len(steps) != len(set(steps)) or steps != sorted(steps):
            found.append(f'evaluated at {steps}')
        if not steps or steps[-1] != step:
            found.append(f'the last evaluation is of step {steps[-1:]}, the last checkpoint of {step}')
        if (self.bests, self.finals, self.others) != (1, 1, []):
            found.append(f'{self.bests} SavedModels in export/best, {self.finals} in export/final, and {self.others}')
        if self.best not in [
            (at, metrics['loss'])
            for at, metrics in self.evaluations
            if metrics['loss'] == min(metrics['loss'] for _, metrics in self.evaluations)
        ]:
            found.append(f'best.json is of {self.best}')
        return found


@dataclasses.dataclass(frozen=True)
class Interrupted:
    """A process of its own comes to harm at a moment, and the same command is given again.

    Attributes:
        lines: of eval/metrics.jsonl at the moment; 0: any.
        early: training stops early; the step at which it does is not the same in every run.
    """

    moment: str
    action: str
    lines: int = EVALUATIONS
    flags: tuple = ()
    early: bool = False

    def __call__(self, folder, undisturbed) -> Row:
        row, flags = Row(), (*JOB, *self.flags)
        name = 'exports' + ''.join(flag.replace('=', '-').replace('--', '-') for flag in self.flags)
        expected = What.of(undisturbed.other(name, lambda stage: stage.trainer(*flags)))
        with Stage(folder) as stage, _disk(stage, self.action) as there:
            if not there:
                return Row(happened='skipped: no tmpfs can be mounted')
            strike = {STRIKE: f'{self.moment} {self.lines} {self.action}'}
            disks.check_end(row, stage.trainer(*flags, **strike), _CODES[self.action])
            row.expect((stage.folder / 'struck').exists(), 'never struck')
            _make_room(stage)
            for _ in range(2):  # the second time there is nothing to do
                disks.check_end(row, stage.trainer(*flags), exit_codes.OK)
            found = What.of(stage.model_dir)
            row.problems += found.problems(files.named(stage.model_dir))
            if self.moment == DECISION:  # the next run decides before it trains
                row.expect(files.named(stage.model_dir) == expected.stop['step'], 'training went on')
            if self.early:
                found, expected = (
                    dataclasses.replace(what, evaluations=what.evaluations[:2], best=()) for what in (found, expected)
                )
            row.equal = found == expected
            row.expect(row.equal, f'{found}\nis not what an undisturbed run leaves:\n{expected}')
            row.judge(stage, last_step=0 if self.early else MAX_STEPS)
        return row


@dataclasses.dataclass(frozen=True)
class InCluster:
    """The same where several tasks train: the evaluator, or the chief, comes to harm.

    Attributes:
        codes: of the supervisor, each time that it is run.
        lines: of eval/metrics.jsonl at the moment.
    """

    moment: str
    action: str
    shape: tuple
    codes: tuple
    lines: int

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage, _disk(stage, self.action) as there:
            if not there:
                return Row(happened='skipped: no tmpfs can be mounted')
            strike = {STRIKE: f'{self.moment} {self.lines} {self.action}'}
            for code in self.codes:
                disks.check_end(row, stage.cluster(self.shape, *JOB, '--lost_peer_secs=5', **strike), code)
                row.expect((stage.folder / 'struck').exists(), 'never struck')
                _make_room(stage)
            row.problems += What.of(stage.model_dir).problems(files.named(stage.model_dir))
            row.judge(stage, last_step=0 if '--ps=1' in self.shape else MAX_STEPS)  # they may pass it
        return row


@contextlib.contextmanager
def _disk(stage, action):
    """The model_dir on a small disk of its own, where it is to be filled. Yields whether that could be done."""
    if action != FILL:
        yield True
        return
    if disks.mount_problem():
        yield False
        return
    with disks.small_disk(stage.folder / 'disk', _DISK_MB) as there:
        stage.model_dir = stage.folder / 'disk' / 'model'
        yield there


def _make_room(stage):
    (stage.folder / 'disk' / 'ballast').unlink(missing_ok=True)


def _at_zero(loop) -> int:
    """The Keras loops evaluate the checkpoint of step 0 as well."""
    return int(loop != 'estimator')


def _read(path):
    return path.read_text() if path.exists() else None


def cases() -> list:
    found = []

    def add(fault, moment, play):
        found.append(Case('hostile', fault, f'in {moment}', play))

    moments = [
        (LINE, KILL, 2),
        (BEST, KILL, 3),
        (LINE, KILL, EVALUATIONS - 1),
        (BEST, KILL, EVALUATIONS),
        (BEST_JSON, KILL, EVALUATIONS),
        (FINAL, KILL, EVALUATIONS),
        (DONE, KILL, EVALUATIONS),
        (LINE, FILL, EVALUATIONS - 1),
        (BEST, FILL, 3),
        (FINAL, FILL, EVALUATIONS),
        (BEST, RAISE, 3),
        (FINAL, RAISE, EVALUATIONS),
    ]
    some = [(BEST_JSON, KILL, EVALUATIONS), (FINAL, KILL, EVALUATIONS), (FINAL, FILL, EVALUATIONS)]
    for loop, its_moments in (('estimator', moments), ('keras_fit', some)):  # the loops share all of this
        for moment, action, lines in its_moments:
            add(
                action,
                f'{loop} {moment} {lines}',
                Interrupted(moment, action, lines + _at_zero(loop), (f'--loop={loop}',)),
            )
        for moment, lines in ((DECISION, 2), (FINAL, 0)):
            add(
                KILL,
                f'{loop} {moment} early',
                Interrupted(moment, KILL, lines, (f'--loop={loop}', *_STOPS), early=True),
            )
    for loop, replicas in (('custom_loop', 1), ('estimator', 2), ('keras_fit', 2)):
        add(
            KILL,
            f'{loop} x {replicas} {FINAL}',
            Interrupted(FINAL, KILL, EVALUATIONS + _at_zero(loop), (f'--loop={loop}', f'--num_replicas={replicas}')),
        )
    with_evaluator, without = ('--workers=2',), ('--workers=2', '--noevaluator')
    add(KILL, f'evaluator {BEST}', InCluster(BEST, KILL, with_evaluator, (0,), lines=0))
    add(KILL, f'evaluator {LINE}', InCluster(LINE, KILL, with_evaluator, (0,), lines=0))
    add(FILL, f'evaluator {BEST}', InCluster(BEST, FILL, with_evaluator, (exit_codes.CANNOT_WRITE, 0), lines=0))
    add(KILL, f'chief of two {FINAL}', InCluster(FINAL, KILL, without, (0,), lines=1))
    add(FILL, f'chief of two {FINAL}', InCluster(FINAL, FILL, without, (exit_codes.CANNOT_WRITE, 0), lines=1))
    add(KILL, f'chief of ps {FINAL}', InCluster(FINAL, KILL, ('--workers=2', '--ps=1', '--noevaluator'), (0,), lines=1))
    return found
