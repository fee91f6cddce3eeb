"""tf_config.inherited: closed standard descriptors, and a SIGCHLD that is ignored."""

import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

from tf_config import inherited

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 120
OPENS = """
import os, subprocess, sys
from tf_config import inherited
inherited.mend()
assert os.open('/dev/null', os.O_RDONLY) > 2
sys.stdout.buffer.write(b'said')
print('said', file=sys.stderr, flush=True)
assert sys.stdin.read() == ''
child = ['sh', '-c', 'echo said && echo said >&2 && ! read line']  # with the descriptors of this process
os._exit(subprocess.run(child).returncode)
"""


@pytest.fixture
def ignored():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize('closed', ['<&-', '>&-', '2>&-', '<&- 2>&-', '<&- >&- 2>&-'])
def test_no_file_gets_the_number_of_a_closed_standard_descriptor(closed):
    done = subprocess.run(
        ['sh', '-c', f'exec "$@" {closed}', 'sh', sys.executable, '-S', '-c', OPENS],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        timeout=BOUND_SECS,
    )
    assert done.returncode == 0


def test_an_ignored_sigchld_is_taken_back(ignored):
    in_thread = threading.Thread(target=inherited.keep_exit_codes)  # which cannot, and says nothing
    in_thread.start()
    in_thread.join()
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    inherited.keep_exit_codes()
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL


def test_a_handler_stays(ignored):
    def handler(signum, frame):
        pass

    signal.signal(signal.SIGCHLD, handler)
    inherited.keep_exit_codes()
    assert signal.getsignal(signal.SIGCHLD) is handler


@pytest.mark.parametrize(
    'program',
    'tf_config estimator_trainer estimator_trainer/compat estimator_trainer/submit/ray_driver.py '
    'estimator_trainer/submit/slurm_node.py estimator_trainer/submit/verdict.py'.split(),
)
def test_every_program_begins_with_it(program):
    path = ROOT / program
    text = (path if path.suffix else path / '__main__.py').read_text()
    assert 'inherited.mend()\n' in text
