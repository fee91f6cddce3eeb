"""Checkpoints that cannot be read now, that take long to read, that not all tasks see, or that the job writes."""

import dataclasses
import errno
import os
import shutil
import subprocess

from estimator_trainer import exit_codes
from tests.chaos import averages, broken, disks, files, own_saver, pairs, slow_disk
from tests.chaos.case import Case, Row
from tests.chaos.stage import REPOSITORY, SAVE_STEPS, Stage

HALF = disks.HALF
SENTENCE = 'the folder is not shared'
DATA = f'model.ckpt-{HALF}.data-00000-of-00001'


def _none_set_aside(row, stage) -> None:
    row.expect(not (stage.model_dir / 'damaged').exists(), 'a checkpoint was set aside')


def _resumed_at(row, stage, step=HALF) -> None:
    sessions = [event['step'] for event in stage.scene.events('session')]
    row.expect(sessions == [step], f'it has resumed at {sessions}')


@dataclasses.dataclass(frozen=True)
class NoPermission:
    """A user who may not read one of the files trains on; then the permissions are mended."""

    name: str

    def __call__(self, folder, undisturbed) -> Row:
        problem = disks.nobody_problem()
        if problem:
            return Row(happened=f'skipped: {problem}')
        row = Row()
        with Stage(folder) as stage:
            disks.open_to_nobody(stage)
            shutil.copytree(broken.half_trained(undisturbed), stage.model_dir)
            for path in (stage.model_dir, *stage.model_dir.rglob('*')):
                os.chown(path, disks.NOBODY, disks.NOBODY)
            (stage.model_dir / self.name).chmod(0)
            disks.check_end(row, disks.trainer_of_nobody(stage), exit_codes.CANNOT_WRITE)
            last = stage.programs[0].last_line
            row.expect(self.name in last and 'Permission denied' in last, f'it does not say what: {last}')
            row.expect(files.steps(stage.model_dir) == [0, 20, 40, 60], 'a checkpoint is not where it was')
            (stage.model_dir / self.name).chmod(0o644)
            disks.check_end(row, disks.trainer_of_nobody(stage), exit_codes.OK)
            _none_set_aside(row, stage)
            _resumed_at(row, stage)
            row.judge(stage, undisturbed.alone())
        return row


def _shim(folder) -> str | None:
    """The compiled refusing_disk.c; None: there is no compiler."""
    if shutil.which('gcc') is None:
        return None
    library = folder / 'refusing_disk.so'
    subprocess.run(
        ['gcc', '-shared', '-fPIC', '-o', library, REPOSITORY / 'tests/chaos/refusing_disk.c', '-ldl'],
        check=True,
        capture_output=True,
    )
    return str(library)


@dataclasses.dataclass(frozen=True)
class Refused:
    """The file system refuses the newest checkpoint with an error; then it works again.

    Attributes:
        times: how often; 0: as long as the first command is tried.
    """

    number: int
    call: str
    code: int
    times: int = 0
    name: str = DATA

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage:
            library = _shim(stage.folder)
            if library is None:
                return Row(happened='skipped: needs gcc')
            shutil.copytree(broken.half_trained(undisturbed), stage.model_dir)
            disks.check_end(
                row,
                stage.trainer(
                    LD_PRELOAD=library,
                    REFUSED=f'model/{self.name}',
                    REFUSED_CALL=self.call,
                    REFUSED_ERRNO=str(self.number),
                    REFUSED_TIMES=str(self.times),
                ),
                self.code,
            )
            if self.code:
                row.expect(
                    os.strerror(self.number) in stage.programs[0].last_line, 'the last line does not name the cause'
                )
                row.expect(files.named(stage.model_dir) == HALF, 'another checkpoint is named')
                disks.check_end(row, stage.trainer(), exit_codes.OK)
            _none_set_aside(row, stage)
            _resumed_at(row, stage)
            row.judge(stage, undisturbed.alone())
        return row


def slow_verification(folder, undisturbed) -> Row:
    """The chief verifies its checkpoint for longer than --join_timeout_secs: nobody takes it for absent."""
    row = Row()
    with Stage(folder) as stage:
        shutil.copytree(
            undisturbed.other(
                'half-of-two',
                lambda stage: stage.cluster(
                    ['--workers=2', '--noevaluator'], f'--max_steps={HALF}', '--job=tests.chaos.slow_disk:job'
                ),
            ),
            stage.model_dir,
        )
        disks.check_end(
            row,
            stage.cluster(
                ['--workers=2', '--max_restarts=0'],
                '--job=tests.chaos.slow_disk:job',
                '--param=verify_secs=30',
                '--join_timeout_secs=15',
                '--allow_config_change',
            ),
            exit_codes.OK,
        )
        row.expect(len(stage.scene.events(slow_disk.VERIFIED)) == 1, 'it was not verified once')
        row.judge(stage, undisturbed.two_workers())
    return row


@dataclasses.dataclass(frozen=True)
class NotShared:
    """Two workers, each with a model_dir of its own.

    Attributes:
        steps: that both have trained in one folder before, of which the worker has a copy; 0: none.
    """

    steps: int = 0
    flags: tuple = ()

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage, pairs.two_addresses() as hosts:
            other = stage.folder / 'other'
            if self.steps:
                first = pairs.start_pair(stage, hosts, f'--max_steps={self.steps}')
                row.expect([program.wait() for program in first] == [0, 0], first[0].output)
                shutil.copytree(stage.model_dir, other)
            before = files.steps(stage.model_dir)
            chief = stage.trainer('--join_timeout_secs=30', *self.flags, TF_CONFIG=pairs.tf_config('worker:0', hosts))
            worker = stage.trainer(
                '--join_timeout_secs=30',
                f'--model_dir={other}',
                *self.flags,
                TF_CONFIG=pairs.tf_config('worker:1', hosts),
            )
            for program in (worker, chief):
                disks.check_end(row, program, exit_codes.USAGE)
                row.expect(SENTENCE in program.last_line and 'worker:1' in program.last_line, 'it does not say why')
            row.expect(files.steps(stage.model_dir) == before, 'something was trained')
            row.judge(stage, finished=False)
        return row


def evaluator_not_shared(folder, undisturbed) -> Row:
    """An evaluator whose model_dir is not the one that two workers train in."""
    row = Row()
    with Stage(folder) as stage, pairs.two_addresses() as hosts:
        stage.trainer('--param=slow_ms=3000', TF_CONFIG=pairs.tf_config('worker:0', hosts))
        stage.trainer('--param=slow_ms=3000', TF_CONFIG=pairs.tf_config('worker:1', hosts))
        config = pairs.tf_config('worker:0', hosts).replace('"task": {"type": "worker"', '"task": {"type": "evaluator"')
        evaluator = stage.trainer('--join_timeout_secs=40', f'--model_dir={stage.folder / "other"}', TF_CONFIG=config)
        disks.check_end(row, evaluator, exit_codes.USAGE)
        row.expect(SENTENCE in evaluator.last_line, 'it does not say why')
    return row


@dataclasses.dataclass(frozen=True)
class OwnSaver:
    """The job brings a CheckpointSaverHook. Two workers, or one process."""

    where: str
    workers: int = 2

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage:
            program = _own_saver(stage, self.workers, f'--param=where={self.where}', '--keep_checkpoints=0')
            disks.check_end(row, program, exit_codes.OK)
            steps = [0, 30, 60, 90, 100]
            row.happened += f', checkpoints of {files.steps(stage.model_dir)}'
            expected = steps[-3:] if self.where == 'own saver' else steps
            row.expect(files.steps(stage.model_dir) == expected, 'not those that the job asks for')
            heard = [(event['task'], event['step']) for event in stage.scene.events(own_saver.HEARD)]
            chief = 'worker:0' if self.workers > 1 else 'trainer'
            row.expect(heard == [(chief, step) for step in steps], f'its listener has heard of {heard}')
            row.judge(stage)
        return row


@dataclasses.dataclass(frozen=True)
class OwnSaverNotFinite:
    """The job brings a CheckpointSaverHook, and a weight is NaN at a step at which it saves."""

    workers: int = 2

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage:
            program = _own_saver(stage, self.workers, '--param=spoil_at=60')
            disks.check_end(row, program, exit_codes.NOT_FINITE)
            row.expect(files.steps(stage.model_dir) == [0, 30], f'checkpoints of {files.steps(stage.model_dir)}')
            row.judge(stage, finished=False)
        return row


def _own_saver(stage, workers, *flags):
    flags = ('--job=tests.chaos.own_saver:job', *flags)
    if workers > 1:
        return stage.cluster([f'--workers={workers}', '--noevaluator', '--max_restarts=0'], *flags)
    return stage.trainer(*flags)


@dataclasses.dataclass(frozen=True)
class Averages:
    """A model whose averages all workers compute as the chief saves: only the chief writes."""

    loop: str

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage:
            program = stage.cluster(
                ['--workers=2', '--noevaluator', '--max_restarts=0'],
                '--job=tests.chaos.averages:job',
                f'--loop={self.loop}',
                '--export=none',
            )
            disks.check_end(row, program, exit_codes.OK)
            made = [event['task'] for event in stage.scene.events(averages.TEMPORARY)]
            row.expect('worker:1' not in made, f'worker:1 has made {made.count("worker:1")} temporary folders')
            row.judge(stage)
        return row


def cases() -> list:
    found = []

    def add(fault, moment, play):
        found.append(Case('hostile', fault, moment, play))

    for name in (DATA, f'model.ckpt-{HALF}.index', 'checkpoint'):
        add('no permission to read', name.rpartition('.')[2].partition('-')[0], NoPermission(name))
    add('too many open files', 'newest checkpoint', Refused(errno.EMFILE, 'open', exit_codes.CANNOT_WRITE))
    add('EIO', 'newest checkpoint', Refused(errno.EIO, 'read', exit_codes.FILES_AWAY))
    add('ESTALE, twice', 'newest checkpoint', Refused(errno.ESTALE, 'open', exit_codes.OK, times=2))
    add('EIO, twice', '`checkpoint`', Refused(errno.EIO, 'open', exit_codes.OK, times=2, name='checkpoint'))
    add('slow verification', 'two workers, evaluator', slow_verification)
    add('model_dir not shared', 'step 0', NotShared())
    add('model_dir not shared', f'step {SAVE_STEPS}', NotShared(SAVE_STEPS))
    add('model_dir not shared', 'evaluator', evaluator_not_shared)
    for where in own_saver.WHERE:
        add('own CheckpointSaverHook', where, OwnSaver(where))
    add('own CheckpointSaverHook', 'one process', OwnSaver('training_hooks', 1))
    add('own CheckpointSaverHook', 'NaN', OwnSaverNotFinite())
    add('own CheckpointSaverHook', 'NaN, one process', OwnSaverNotFinite(1))
    for loop in ('keras_fit', 'custom_loop'):
        add('averages of all workers', loop, Averages(loop))
    return found
