"""The last line of a cluster's terminal: what a person sees, by an emulated terminal and a real shell in it."""

import fcntl
import os
import pty
import shlex
import signal
import struct
import subprocess
import sys
import termios
import threading

import pyte
import pytest

from estimator_trainer.this_process import last_line
from estimator_trainer.this_process.console import Console
from tests.supervisor.conftest import COMMAND, ROOT, TRAINER

BOUND_SECS = 120
ROWS = 60


class Terminal:
    """A terminal of `columns`, what it shows, and a way to type into it."""

    def __init__(self, columns):
        self.master, self.device = pty.openpty()
        self.screen = pyte.Screen(columns, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        self.resize(columns)
        self._changed = threading.Condition()
        self.seen = b''
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def resize(self, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack('HHHH', ROWS, columns, 0, 0))
        self.screen.resize(columns=columns)

    def type(self, text):
        os.write(self.master, text.encode())

    @property
    def lines(self):
        """Of the screen, without the empty ones at its end."""
        return '\n'.join(line.rstrip() for line in self.screen.display).rstrip('\n').split('\n')

    def until(self, condition):
        """Waits until `condition(lines)` holds."""
        with self._changed:
            held = self._changed.wait_for(lambda: condition(self.lines), BOUND_SECS)
        assert held, '\n'.join(self.lines)
        return self.lines

    def close(self):
        os.close(self.device)  # the reader ends with an error of the other end
        self._reader.join(BOUND_SECS)
        os.close(self.master)

    def _read(self):
        while True:
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:
                return
            with self._changed:
                self.seen += data
                self._stream.feed(data)
                self._changed.notify_all()


@pytest.fixture
def terminal():
    terminals = []
    yield lambda columns=80: terminals.append(Terminal(columns)) or terminals[-1]
    for each in terminals:
        each.close()


SCRIPT = """
report() {  # step, loss
  echo "{\\"step\\": $1, \\"loss\\": $2}" >> model/metrics.jsonl
  board training $1 20
}
case $who in
  worker:0)
    report 22 0.5
    echo 'the first line'
    printf 'bar 1\\rbar 2\\033[A\\033[2K\\r\\nlast of bars\\n'
    wait_for second; report 40 0.25; echo 'the second line'
    wait_for third; report 44 0.125; echo 'the third line'
    wait_for end;;
  *) wait_for end;;
esac
"""


def as_in_a_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for signum in (signal.SIGINT, signal.SIGQUIT):  # ignored if the tests run in the background
        signal.signal(signum, signal.SIG_DFL)


@pytest.fixture
def shell(terminal, tmp_path):
    """(terminal, go): an interactive shell in tmp_path, with the command of a cluster typed into it."""
    (tmp_path / 'model').mkdir()
    (tmp_path / 'trainer.sh').write_text(TRAINER + SCRIPT)
    (tmp_path / 'cluster.py').write_text(COMMAND)
    screen = terminal(100)
    popen = subprocess.Popen(
        ['bash', '--norc', '--noprofile', '-i'],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'TERM': 'xterm', 'PS1': '$ ', 'NO_COLOR': '1', 'HISTFILE': ''},
        stdin=screen.device,
        stdout=screen.device,
        stderr=screen.device,
        start_new_session=True,
        preexec_fn=as_in_a_terminal,
    )
    python = shlex.quote(sys.executable)
    screen.type(f'{python} cluster.py --isolate=off --workers=1 -- --model_dir=model\n')
    yield screen, lambda name: (tmp_path / f'here-{name}').touch()
    popen.kill()  # its jobs are hung up
    popen.wait()


def test_what_a_person_sees(shell):
    screen, go = shell
    screen.until(lambda lines: any('last of bars' in line for line in lines) and 'step 22' in lines[-1])
    lines = screen.lines
    assert lines[-1] == 'trains: step 22 of 100 (22 %), loss 0.5000; 2 of 2 tasks alive, 0 restarts'
    assert lines[-5:-1] == [f'[worker:0] {text}' for text in ('the first line', 'bar 1', 'bar 2', 'last of bars')]

    go('second')
    lines = screen.until(lambda lines: 'step 40' in lines[-1] and lines[-2] == '[worker:0] the second line')
    assert 'loss 0.2500' in lines[-1]
    assert not any('trains:' in line for line in lines[:-1])

    screen.type('\x1a')  # Ctrl-Z
    lines = screen.until(lambda lines: lines[-1] == '$')
    assert any('Stopped' in line for line in lines)
    assert not any('trains:' in line for line in lines)
    screen.type('fg\n')
    screen.until(lambda lines: lines[-1].startswith('trains: step 40'))

    screen.resize(40)
    go('third')
    lines = screen.until(lambda lines: 'step 44' in lines[-1] and lines[-1].endswith(' left'))
    assert len(lines[-1]) <= 37 and lines[-1].startswith('step 44 of 100')
    assert any('[worker:0] the third line' in line for line in lines)

    go('end')
    lines = screen.until(lambda lines: lines[-1] == '$' and any('end: exit code 0' in line for line in lines))
    assert not any('tasks alive' in line or 'step 44' in line for line in lines)


@pytest.mark.parametrize('key', ['\x03', '\x1c'], ids=['Ctrl-C', 'Ctrl-backslash'])
def test_a_signal_leaves_a_clean_line(shell, key):
    screen, _ = shell
    screen.until(lambda lines: lines[-1].startswith('trains: step 22'))
    screen.type(key)
    lines = screen.until(lambda lines: lines[-1] == '$')
    assert not any('trains:' in line for line in lines)


def test_lines_and_the_last_one_share_a_terminal(terminal):
    screen = terminal(50)
    with open(os.dup(screen.device), 'wb') as shown:
        with Console.for_stream(shown, {'TERM': 'xterm', 'NO_COLOR': '1'}, has_line=True) as console:
            for number in range(200):
                console.write(b'[worker:0] line %d\n' % number)
                console.show(lambda width, number=number: f'at {number}, of {width} columns'[:width])
            lines = screen.until(lambda lines: lines[-1].startswith('at 199'))
            assert lines[-1] == 'at 199, of 47 columns'
            assert [line for line in lines[:-1] if line] == [f'[worker:0] line {n}' for n in range(200)][-ROWS + 1 :]
            with console.without_line():
                screen.until(lambda lines: lines[-1] == '[worker:0] line 199')
                console.write(b'[worker:0] meanwhile\n')
                screen.until(lambda lines: lines[-1] == '[worker:0] meanwhile')
            screen.until(lambda lines: lines[-1].startswith('at 199'))
            console.show(None)
            screen.until(lambda lines: lines[-1] == '[worker:0] meanwhile')
            console.show(lambda width: 'again')
        screen.until(lambda lines: lines[-1] == '[worker:0] meanwhile')
    assert screen.seen.count(b'at ') < 100  # it is not drawn for each line


@pytest.mark.parametrize('environ', [{}, {'TERM': 'dumb'}, {'TERM': ''}])
def test_where_no_line_can_be_erased_there_is_none(terminal, environ, tmp_path):
    screen = terminal()
    assert last_line.for_terminal(screen.device, environ, bold=False) is None
    with open(tmp_path / 'file', 'wb') as file, Console.for_stream(file, {'TERM': 'xterm'}, has_line=True) as console:
        console.show(lambda width: 'a line')
        console.say('said')
    assert (tmp_path / 'file').read_bytes() == b'[cluster] said\n'


@pytest.mark.parametrize(
    'given, kept',
    [
        (b'\x1b[31mred\x1b[0m\ttab\n', b'\x1b[31mred\x1b[0m\ttab\n'),
        (b'\x1b[A\x1b[2K up\x1b[?25l\n', b' up\n'),
        (b'50%\x08\x08\x0851%\x07\n', b'50%51%\n'),
        (b'\x1b]0;a title\x07text\x1bc\x1b(B\n', b'text\n'),
        (b'cut \x1b[31\nnext \x1b[\n\x1b\n', b'cut \nnext \n\n'),
        ('größer – 小\n'.encode(), 'größer – 小\n'.encode()),
    ],
)
def test_a_task_does_not_move_the_cursor(given, kept):
    assert last_line.without_moves(given) == kept
