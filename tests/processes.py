"""What tests ask about processes. Every wait has a bound."""

import dataclasses
import json
import os
import pathlib
import subprocess
import time

BOUND_SECS = 120


def until(condition):
    """Waits for a true `condition()`, and returns its value."""
    deadline = time.monotonic() + BOUND_SECS
    while not (result := condition()):
        assert time.monotonic() < deadline, 'waited in vain'
        time.sleep(0.01)
    return result


def pid_in(path) -> int:
    """The number in a file, once a script has written it with `echo $$ > path`."""
    until(lambda: path.exists() and path.read_text().endswith('\n'))
    return int(path.read_text())


def gone(pid) -> bool:
    """Whether there is no such process, or only a zombie that nobody has awaited yet."""
    try:
        os.kill(pid, 0)
        return pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] == 'Z'
    except (ProcessLookupError, FileNotFoundError):
        return True


@dataclasses.dataclass
class Run:
    """A program in a process of its own, which works in `folder`."""

    folder: pathlib.Path
    popen: subprocess.Popen

    def finish(self):
        """Waits for its end."""
        out, err = self.popen.communicate(timeout=BOUND_SECS)
        self.out, self.err, self.code = out.decode(), err.decode(), self.popen.returncode
        return self

    def json(self, name):
        """The content of one of its files. None: it is not there."""
        try:
            return json.loads((self.folder / name).read_text())
        except FileNotFoundError:
            return None
