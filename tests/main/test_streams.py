"""tf_config.inherited: a reader that has gone does not end a program, nor make it complain."""

import itertools
import os
import pathlib
import pty
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 120
COMMANDS = (
    ('estimator_trainer', '--help'),
    ('estimator_trainer', 'cluster', '--help'),
    ('tf_config', '--help'),
    ('estimator_trainer', 'parity', '--help'),
    ('estimator_trainer', 'migrate', '--help'),
    ('estimator_trainer', 'submit', '--help'),
    ('estimator_trainer', 'doctor', '--help'),
    ('estimator_trainer.submit.verdict', '--help'),
    ('estimator_trainer.compat', '--help'),
)
DOCTOR = ('estimator_trainer', 'doctor')  # brings TensorFlow up, which takes seconds


def unread(command, **more):
    """Runs a command whose standard output nobody reads -> its exit code and what it complained of."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, 'wb') as stdout:
        done = subprocess.run(
            [sys.executable, *command],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=BOUND_SECS,
            env={**os.environ, 'PYTHONPATH': str(ROOT), **more},
        )
    return done.returncode, done.stderr


@pytest.mark.parametrize('command, unbuffered', [*itertools.product(COMMANDS, ('', '1')), (DOCTOR, '')], ids=' '.join)
def test_help_that_nobody_reads(command, unbuffered):
    if command[-1] == 'doctor':
        pytest.importorskip('tensorflow')
    code, complaint = unread(('-m', *command), PYTHONUNBUFFERED=unbuffered)
    assert (code, complaint) == (0, '')


PROGRAM = """
import sys
from tf_config import inherited
inherited.outlive_readers()
"""


@pytest.mark.parametrize('lines', [1, 100_000])
@pytest.mark.parametrize('flags', [(), ('-u',)])
def test_a_program_goes_on_without_a_reader(lines, flags):
    code, complaint = unread(
        (
            *flags,
            '-c',
            f"""{PROGRAM}
for _ in range({lines}): print('a line')
print('the end', file=sys.stderr)
sys.exit(3)
""",
        )
    )
    assert (code, complaint) == (3, 'the end\n')


def test_a_terminal_that_is_closed():
    master, slave = pty.openpty()
    reader, writer = os.pipe()
    with open(reader) as told:
        process = subprocess.Popen(
            [
                sys.executable,
                '-c',
                f"""{PROGRAM}
import os, tqdm, time
bar = tqdm.tqdm(total=10**6, mininterval=0)
os.write({writer}, b'started\\n')
input()
for _ in range(100):
    bar.update()
    print('to nobody', flush=True)
    tqdm.tqdm.write('to nobody', file=sys.stderr)
os.write({writer}, b'done\\n')
""",
            ],
            stdin=subprocess.PIPE,
            stdout=slave,
            stderr=slave,
            pass_fds=[writer],
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
            start_new_session=True,
        )
        os.close(slave)
        os.close(writer)
        assert told.readline() == 'started\n'
        os.close(master)
        process.communicate(b'\n', BOUND_SECS)
        assert (process.returncode, told.read()) == (0, 'done\n')


def test_a_full_disk_is_another_matter():
    done = subprocess.run(
        [sys.executable, '-uc', f"{PROGRAM}\nprint('x')"],
        stdout=open('/dev/full', 'w'),
        stderr=subprocess.PIPE,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        timeout=BOUND_SECS,
    )
    assert done.returncode == 1 and b'No space left' in done.stderr


def test_streams_that_are_closed():
    done = subprocess.run(
        ['sh', '-c', 'exec "$@" >&- 2>&-', 'sh', sys.executable, '-c', f'{PROGRAM}\nprint(1)\nsys.exit(3)'],
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        timeout=BOUND_SECS,
    )
    assert done.returncode == 3
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN  # Python's own, which makes it an exception
