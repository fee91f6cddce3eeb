"""What a program takes over from whoever starts it and cannot work with. Every command of this project calls `mend`
before anything else.

1. Standard descriptors that are closed (`2>&-`). The next file or socket would get the number, and whatever writes to
   standard error, such as C code, would write into it.
2. A SIGCHLD that is ignored (`trap '' CHLD`, some service managers). The kernel takes the exit codes of children itself
   then, and a child that has failed seems to have ended well.
3. Standard output and error that nobody reads (`streams.py`).
"""

import os
import signal
import threading

from tf_config import streams

_MODES = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)  # of the descriptors 0, 1 and 2


def mend() -> None:
    open_standard_descriptors()
    keep_exit_codes()
    streams.outlive_readers()


def open_standard_descriptors() -> None:
    """Opens those of the descriptors 0, 1 and 2 that are closed on /dev/null. Children inherit them."""
    for number, mode in enumerate(_MODES):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened == number:  # as it is where the lower ones are open
                os.set_inheritable(number, True)
            else:
                os.dup2(opened, number)
                os.close(opened)


def keep_exit_codes() -> None:
    """Lets this process have the exit codes of its children. Only the main thread can do that."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
