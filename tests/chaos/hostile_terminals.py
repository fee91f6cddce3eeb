"""Terminals that are closed, and what the cases of helper processes share with them."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import protocol
from tests.chaos import faults, files
from tests.chaos.case import Row
from tests.chaos.faults import TRAINING
from tests.chaos.stage import JOB as SMALL_JOB
from tests.chaos.stage import REPOSITORY, SAVING, Stage

JOB = '--job=tests.chaos.hostile_fork_job:job'
KERAS_JOB = '--job=tests.chaos.hostile_fork_job:keras_job'
SLOWLY = '--param=slow_ms=300'  # so that helpers are ahead of the steps, and there is time to strike
AGAIN = (JOB, '--allow_config_change', '--param=helpers=fork')
PLACES = ('generator', 'numpy_function', 'hook')
HELPERS_SECS = 10  # from the end of the trainer to that of its helpers
STRIKE_STEP = 7


def reached(stage, step) -> bool:
    return any(event['step'] >= step for event in stage.scene.events(TRAINING))


def until_step(stage, program, step=STRIKE_STEP) -> None:
    faults.until(lambda: reached(stage, step) or program.poll() is not None, f'no step {step}')
    assert program.poll() is None, program.output


def check_ended(row, stage, program, code) -> None:
    found = program.wait()
    row.happened += f'{", " if row.happened else ""}exit {found}'
    row.expect(found == code, f'exit code {found}, not {code}:\n{program.output}')
    row.expect(stage.is_empty(HELPERS_SECS), f'left running: {stage.running()}')


def check_saved(row, stage, task='trainer') -> None:
    last = max(event['step'] for event in stage.scene.events(TRAINING) if event['task'] == task)
    row.happened += f' at step {last}'
    row.expect(files.named(stage.model_dir) == last, f'saved at step {files.named(stage.model_dir)}, not {last}')


def closed_terminal(folder, undisturbed) -> Row:
    """The terminal of a lone trainer is closed while a progress bar is drawn there."""
    row = Row()
    with Stage(folder) as stage:
        error = stage.folder / 'error.json'
        parent, child = pty.openpty()
        process = _in_terminal(stage, child, error)
        try:
            os.close(child)
            faults.until(lambda: reached(stage, STRIKE_STEP), f'no step {STRIKE_STEP}')
            os.close(parent)  # the kernel sends SIGHUP
            code = process.wait(60)
        finally:
            process.kill()
            process.wait()
        told = protocol.read_json(str(error))
        row.happened, row.said = f'exit {code}', [told.get('message', '')]
        row.expect(code == exit_codes.TERMINATED, f'exit code {code}: {told}')
        row.expect('SIGHUP' in told.get('message', ''), 'the message does not name SIGHUP')
        check_saved(row, stage)
        check_ended(row, stage, stage.trainer('--allow_config_change'), exit_codes.OK)
        row.judge(stage, undisturbed.alone())
    return row


def _in_terminal(stage, terminal, error):
    """A trainer whose terminal is `terminal`, as a shell starts it."""
    command = [
        sys.executable,
        '-m',
        'estimator_trainer',
        *SMALL_JOB,
        *SAVING,
        f'--model_dir={stage.model_dir}',
        SLOWLY,
        '--progress=on',
    ]
    environ = {**os.environ, faults.FOLDER: str(stage.folder), protocol.ERROR_FILE: str(error)}
    environ.pop('TF_CONFIG', None)
    return subprocess.Popen(
        [
            sys.executable,
            '-c',
            'import fcntl, os, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); '
            'signal.signal(signal.SIGHUP, signal.SIG_DFL); '
            'os.execv(sys.argv[1], sys.argv[1:])',
            *command,
        ],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environ,
        start_new_session=True,
        cwd=REPOSITORY,
    )


def hang_up_without_terminal(folder, undisturbed) -> Row:
    """kill -HUP; under nohup it does nothing."""
    row = Row()
    with Stage(folder) as stage:
        program = stage.trainer(SLOWLY)
        until_step(stage, program)
        for _ in range(2):  # the kernel and the shell both say it
            program.send(signal.SIGHUP)
        check_ended(row, stage, program, exit_codes.TERMINATED)
        row.said = [program.last_line]
        row.expect('stopped by SIGHUP' in program.last_line, program.output)
        check_saved(row, stage)
        again = stage.trainer('--allow_config_change', before=('nohup',))
        again.says('loop estimator')  # by then nohup has taken hold
        with contextlib.suppress(ProcessLookupError):
            while again.poll() is None:  # whatever it is at
                again.send(signal.SIGHUP)
                time.sleep(0.2)
        check_ended(row, stage, again, exit_codes.OK)
        row.judge(stage, undisturbed.alone())
    return row
