"""What an exception says in one line: its class, the line of its text that tells something, the place in the job.

Pure; imports no TensorFlow.
"""

import os
import re
import site
import sysconfig
import traceback

from estimator_trainer.error_lines import TRACED, cause_in_traced_code, short, telling_line
from estimator_trainer.training import meanings

_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+)', re.MULTILINE)
_GENERATED = '__autograph_generated_file'
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NOT_OF_A_JOB = tuple(
    os.path.join(folder, '')
    for folder in {*site.getsitepackages(), *map(sysconfig.get_paths().get, ('stdlib', 'purelib', 'platlib')), _OURS}
)


def described(error: BaseException) -> str:
    """Such as "KeyError: 'no column named age' (raises.py, line 6)"."""
    text = text_of(error)
    cause = cause_in_traced_code(text)
    said = short(cause) if cause else f'{type(error).__name__}: {short(first_line(error))}'
    what = meanings.of(text) or said
    file, line = _place(error, text)
    return f'{what} ({os.path.basename(file)}, line {line})' if file else what


def in_traced_code(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """The exception of this class for which AutoGraph has raised `error`; it does so around a model_fn of replicas."""
    if not text_of(error).startswith(TRACED):
        return None
    before = error.__context__
    while before is not None and not isinstance(before, kind):
        before = before.__context__
    return before


def first_line(error: BaseException) -> str:
    """The first line of its text that tells something."""
    return telling_line(text_of(error)) or type(error).__name__


def text_of(error: BaseException) -> str:
    return str(getattr(error, 'message', None) or error)


def _place(error: BaseException, text: str) -> tuple[str, int]:
    """The innermost line of the job's own code: in the text, else in the traceback. ('', 0): there is none."""
    told = [(file, int(line)) for file, line in _FRAME.findall(text)]
    raised = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    for frames in (told, raised):
        for file, line in reversed(frames):
            if _is_of_the_job(file):
                return file, line
    return '', 0


def _is_of_the_job(file: str) -> bool:
    if file.startswith('<') or _GENERATED in file:
        return False
    return not os.path.abspath(file).startswith(_NOT_OF_A_JOB)
