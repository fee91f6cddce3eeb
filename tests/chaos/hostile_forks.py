"""Jobs with helper processes, terminals that are closed, locks that somebody else holds or has put there."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import file_names, protocol, training_file
from tests.chaos import faults, files, hostile_helpers, pairs
from tests.chaos.case import EVERY_STEP, Case, Row
from tests.chaos.faults import TRAINING
from tests.chaos.hostile_terminals import (
    AGAIN,
    JOB,
    KERAS_JOB,
    PLACES,
    SLOWLY,
    STRIKE_STEP,
    check_ended,
    check_saved,
    closed_terminal,
    hang_up_without_terminal,
    until_step,
)
from tests.chaos.stage import Stage


@dataclasses.dataclass(frozen=True)
class Works:
    """Helpers of several kinds at once, which the job never ends: the run does."""

    where: str
    helpers: tuple = hostile_helpers.KINDS

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage:
            error = stage.folder / 'error.json'
            program = stage.trainer(
                JOB,
                f'--param=where={self.where}',
                f'--param=helpers={"+".join(self.helpers)}',
                **{protocol.ERROR_FILE: str(error)},
            )
            check_ended(row, stage, program, exit_codes.OK)
            row.expect(not error.exists(), 'there is an error file')
            board = protocol.read_json(str(stage.model_dir / file_names.TRAINING))
            row.expect(board.get('state') == training_file.ENDED, f'training.json says {board}')
            row.judge(stage, undisturbed.alone())
        return row


@dataclasses.dataclass(frozen=True)
class Stops:
    """A signal to the trainer, or to all of its group as a terminal sends it; then the same command again."""

    signum: signal.Signals
    group: bool
    where: str = 'generator'

    def __call__(self, folder, undisturbed) -> Row:
        row = Row()
        with Stage(folder) as stage:
            program = stage.trainer(JOB, SLOWLY, f'--param=where={self.where}')
            until_step(stage, program)
            (os.killpg if self.group else os.kill)(program.pid, self.signum)
            check_ended(row, stage, program, 128 + self.signum)
            check_saved(row, stage)
            check_ended(row, stage, stage.trainer(*AGAIN), exit_codes.OK)
            row.judge(stage, undisturbed.alone())
        return row


@dataclasses.dataclass(frozen=True)
class KerasStops:
    """SIGTERM to the trainer's group: the input of the next step fails, because its helpers have ended as well."""

    loop: str

    def __call__(self, folder, undisturbed) -> Row:
        row, flags = Row(), (KERAS_JOB, f'--loop={self.loop}', '--param=helpers=fork', *EVERY_STEP)
        with Stage(folder) as stage:
            board = stage.model_dir / file_names.TRAINING
            program = stage.trainer(*flags, '--param=answer_ms=300')
            faults.until(
                lambda: (protocol.read_json(str(board)).get('step') or 0) >= STRIKE_STEP or program.poll() is not None,
                f'no step {STRIKE_STEP}',
            )
            os.killpg(program.pid, signal.SIGTERM)
            check_ended(row, stage, program, exit_codes.TERMINATED)
            row.happened += f' at step {files.named(stage.model_dir)}'
            row.expect(files.named(stage.model_dir) >= STRIKE_STEP, 'not saved')
            check_ended(row, stage, stage.trainer(*flags, '--allow_config_change'), exit_codes.OK)
            row.judge(stage, undisturbed.other(f'helped-{self.loop}', lambda stage: stage.trainer(*flags)))
        return row


def orphan(folder, undisturbed) -> Row:
    """kill -9 of the trainer; its helpers live on; the same command again trains at once."""
    row = Row()
    with Stage(folder) as stage:
        program = stage.trainer(JOB, SLOWLY, '--param=helpers=sleeper+fork')
        until_step(stage, program)
        program.send(signal.SIGKILL)
        program.wait()
        row.expect(stage.running(), 'no helper is left')
        again = stage.trainer(*AGAIN)
        code = again.wait()
        row.happened = f'exit 137, exit {code}'
        row.expect(code == exit_codes.OK, again.output)
        row.expect(files.named(stage.model_dir) == 100, 'the run is not done')
    return row


def two_workers(folder, undisturbed) -> Row:
    """Under a supervisor: a signal to it, and the same command again."""
    row = Row()
    with Stage(folder) as stage:

        def start(*flags):
            return stage.cluster(['--workers=2', '--noevaluator', '--max_restarts=0'], JOB, *flags)

        program = start(SLOWLY)
        until_step(stage, program)
        program.send(signal.SIGTERM)
        check_ended(row, stage, program, exit_codes.TERMINATED)
        check_saved(row, stage, 'worker:0')
        check_ended(row, stage, start('--allow_config_change', '--param=helpers=fork'), exit_codes.OK)
        row.judge(stage, undisturbed.two_workers())
    return row


def linked_lock(folder, undisturbed) -> Row:
    """Somebody has put symbolic links under the names of our files."""
    row = Row()
    with Stage(folder) as stage:
        stage.model_dir.mkdir()
        theirs = stage.folder / 'theirs'
        theirs.write_text('of value')
        for name in ('.trainer.lock', '.cluster.lock'):
            (stage.model_dir / name).symlink_to(theirs)
        for program in (stage.trainer(), stage.cluster(['--workers=1', '--noevaluator'])):
            check_ended(row, stage, program, exit_codes.USAGE)
            row.said.append(program.last_line)
            row.expect('is a symbolic link' in program.last_line, program.output)
        row.expect(theirs.read_text() == 'of value', 'it was written through the link')
    return row


@contextlib.contextmanager
def _held(path, content):
    """A lock that a process of another machine holds, as far as the file says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    holder = subprocess.Popen(
        [
            sys.executable,
            '-c',
            'import fcntl, sys; file = open(sys.argv[1], "a+"); '
            'fcntl.flock(file, fcntl.LOCK_EX); file.truncate(0); file.write(sys.argv[2]); file.flush(); '
            'print("held", flush=True); input()',
            str(path),
            content,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout.readline() == 'held\n'
        yield holder
    finally:
        holder.kill()
        holder.communicate()


def evaluator_of_a_dead_machine(folder, undisturbed) -> Row:
    """The evaluator's predecessor was on a machine that is lost, whose lock the file system still has."""
    row = Row()
    with (
        Stage(folder) as stage,
        pairs.two_addresses() as hosts,
        _held(stage.model_dir / 'eval' / '.lock', '7 node7 another-boot'),
    ):
        place = {'cluster': {'chief': hosts[:1]}, 'task': {'type': 'evaluator', 'index': 0}}
        program = stage.trainer(TF_CONFIG=json.dumps(place))
        check_ended(row, stage, program, exit_codes.MODEL_DIR_TAKEN)
        row.said = [program.last_line]
        row.expect('process 7 on node7 evaluates this run' in program.last_line, program.output)
    return row


def data_set_of_another(folder, undisturbed) -> Row:
    """Another process prepares the data set. It is waited for, and SIGTERM is obeyed meanwhile."""
    row = Row()
    with Stage(folder) as stage, _held(stage.folder / 'data' / 'mnist_5k' / '.lock', '7') as holder:
        flags = ('--job=mnist', '--max_steps=1', '--export=none', f'--data_dir={stage.folder}/data')
        program = stage.trainer(*flags)
        program.says('process 7 prepares the data set in')
        program.send(signal.SIGTERM)
        check_ended(row, stage, program, exit_codes.TERMINATED)
        again = stage.trainer(*flags)
        again.says('process 7 prepares the data set in')
        holder.kill()
        check_ended(row, stage, again, exit_codes.OK)
    return row


def cases() -> list:
    found = []

    def add(fault, moment, play):
        found.append(Case('hostile', fault, moment, play))

    for where in PLACES:
        add('helpers', where, Works(where, tuple(set(hostile_helpers.KINDS) - {'sleeper'})))
    add('helpers that never end', 'generator', Works('generator'))
    for signum in (signal.SIGINT, signal.SIGTERM):
        for group in (False, True):
            for where in PLACES:
                add(f'helpers {signum.name} {"group" if group else "process"}', where, Stops(signum, group, where))
    for loop in ('keras_fit', 'custom_loop'):
        add('helpers SIGTERM group', loop, KerasStops(loop))
    add('helpers outlive kill -9', TRAINING, orphan)
    add('helpers SIGTERM supervisor', TRAINING, two_workers)
    add('terminal closed', TRAINING, closed_terminal)
    add('SIGHUP', TRAINING, hang_up_without_terminal)
    add('locks are links', 'before', linked_lock)
    add('evaluator of lost machine', 'before', evaluator_of_a_dead_machine)
    add('data set is prepared', 'start-up', data_set_of_another)
    return found
