r"""The line below the lines that scroll, on a terminal. It makes bytes; the console's thread writes them.

The line never fills the width, so that the terminal does not wrap it, and '\r' with 'erase to the end' removes it. That
needs no state of the terminal that a process that is killed could leave behind. tqdm and rich draw such lines as well,
but write to the terminal themselves: they would wait for a reader that stalls, which the supervisor must not do
(console.py).
"""

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping

_ERASE = b'\r\x1b[K'
_PLAIN, _BOLD = b'\x1b[m', b'\x1b[1m'
_ROOM = 3  # columns that stay free: the terminal shows Ctrl-C as ^C, and must not wrap it
_LEAST = 20  # columns: less is no place for a line
_LEAVES = (signal.SIGTSTP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)  # that stop or end us without a word of ours

# What a task's line may hold that moves the cursor: control characters and escape sequences, but for tabs and colours.
_MOVES = re.compile(
    rb'\x1b\[(?![0-9;:]*m)[0-?]*[ -/]*[@-~]?'  # CSI sequences, such as 'up' of nested progress bars
    rb'|\x1b[]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?'  # titles and other strings
    rb'|\x1b(?!\[)[ -/]*[0-~]?'
    rb'|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]'
)


def without_moves(lines: bytes) -> bytes:
    """Lines of a task without what would move the cursor from where the last line is drawn."""
    return _MOVES.sub(b'', lines)


class LastLine:
    """One line at the foot of a terminal.

    Args:
        fd: of the terminal.
        bold: whether it stands out.

    Attributes:
        text: (columns) -> the line, of at most so many; None: there is none.
        hidden: it is not to be drawn for now.
        drawn: whether the bytes that were made last leave a line on the screen.
    """

    def __init__(self, fd: int, bold: bool):
        self._fd, self._bold = fd, bold
        self.text: Callable[[int], str] | None = None
        self.hidden = False
        self._on_screen = b''

    @property
    def drawn(self) -> bool:
        return bool(self._on_screen)

    def below(self, lines: bytes) -> bytes:
        """Writes whole `lines`, and the line below them as it is now. b'': nothing changes."""
        new, old = self._line(), self._on_screen
        if not lines and new == old:
            return b''
        self._on_screen = new
        return (_ERASE if old else b'') + lines + new

    def _line(self) -> bytes:
        columns = self._columns()
        if self.text is None or self.hidden or columns < _LEAST or in_background(self._fd):
            return b''
        text = self.text(columns - _ROOM).encode(errors='replace')
        return _PLAIN + (_BOLD + text + _PLAIN if self._bold else text) if text else b''

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._fd).columns
        except OSError:  # it is gone
            return 0


def for_terminal(fd: int, environ: Mapping[str, str], bold: bool) -> LastLine | None:
    """None where there is no terminal, or one that cannot erase a line."""
    if not os.isatty(fd) or environ.get('TERM', 'dumb') in ('', 'dumb'):
        return None
    return LastLine(fd, bold)


def in_background(fd: int) -> bool:
    """Whether the terminal belongs to another job of its shell, as after Ctrl-Z and `bg`."""
    try:
        return os.tcgetpgrp(fd) != os.getpgrp()
    except OSError:  # it is not our controlling terminal: no shell has jobs there
        return False


@contextlib.contextmanager
def erased_by_signals(hide: Callable[[], contextlib.AbstractContextManager]) -> Iterator[None]:
    """While it is entered, the line is erased before a signal stops or ends this process. Main thread only.

    Args:
        hide: () -> a context in which there is no line.
    """

    def leave(signum: int, frame: object) -> None:
        with hide():
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)  # where it only stops us, SIGCONT lets us go on here
            signal.signal(signum, leave)

    ours = [signum for signum in _LEAVES if signal.getsignal(signum) is signal.SIG_DFL]
    for signum in ours:
        signal.signal(signum, leave)
    try:
        yield
    finally:
        for signum in ours:
            signal.signal(signum, signal.SIG_DFL)
