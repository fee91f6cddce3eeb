"""File operations that may hang, as on a file system whose server is away, for a thread that must not do so."""

import threading
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar('Value')
BOUND_SECS = 5  # of an operation that takes milliseconds; whoever must act meanwhile waits so long
_AGAIN_SECS = 0.2  # of each one after that, until one has ended in time


class BoundedFiles:
    """Runs one operation after the other, each in a thread of its own. While one hangs, no other one is begun.

    Args:
        say: told once what hangs, and once that it goes on.
        what: is read and written, for the message.
        secs: that are waited for an operation.
    """

    def __init__(self, say: Callable[[str], None], what: str, secs: float = BOUND_SECS):
        self._say, self._what, self._secs = say, what, secs
        self._thread: threading.Thread | None = None
        self._hangs = False

    def call(self, operation: Callable[[], Value], otherwise: Value) -> Value:
        """The result of `operation`, or `otherwise` while it hangs or an earlier one does. Raises what it raises."""
        if self._thread and self._thread.is_alive():
            return otherwise
        done: list[Value] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                done.append(operation())
            except BaseException as error:
                failed.append(error)

        self._thread = thread = threading.Thread(target=run, name='files', daemon=True)
        try:
            thread.start()
        except RuntimeError:  # too many processes of this user
            self._thread = None
            return operation()
        thread.join(min(self._secs, _AGAIN_SECS) if self._hangs else self._secs)
        self._tell(thread.is_alive())
        if failed:
            raise failed[0]
        return done[0] if done else otherwise

    def wait(self, secs: float) -> bool:
        """Waits for an operation that hangs, for so many seconds at most. Returns whether it has ended."""
        if self._thread:
            self._thread.join(secs)
            self._tell(self.hang)  # what comes next has its whole time
        return not self.hang

    @property
    def hang(self) -> bool:
        """Whether an operation hangs."""
        return self._thread is not None and self._thread.is_alive()

    def _tell(self, hangs: bool) -> None:
        if hangs and not self._hangs:
            self._say(f'WARNING: {self._what} has not answered for {self._secs:g} s; the run goes on meanwhile')
        elif self._hangs and not hangs:
            self._say(f'{self._what} answers again')
        self._hangs = hangs
