"""What an exception says in one line: its class, the line of its text that tells something, the place in the job.

Pure; imports no TensorFlow. Three kinds of texts have several lines of which the first tells nothing: those of
TensorFlow's runtime, those of a Python function that an operation runs, and those of AutoGraph, which has traced the
code ("in user code:").
"""

import os
import re
import site
import sysconfig
import traceback

from estimator_trainer.training import meanings

MOST = 200  # characters of a text
_TELLS_NOTHING = (
    'Graph execution error',
    '====',
    'Detected at node',
    'From /job:',
    'File "',
    'Node:',
    '<stack traces unavailable>',
)
_PREFIX = re.compile(r'^(\{\{function_node [^}]*\}\} *|[A-Z_]+: (?=From /job:))')
_TRACED = 'in user code:'  # what AutoGraph's texts begin with; then the frames, and at last the exception as it was
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
    cause = _cause_in_traced_code(text)
    said = short(cause) if cause else f'{type(error).__name__}: {short(first_line(error))}'
    what = meanings.meaning_of(text) or said
    file, line = _place(error, text)
    return f'{what} ({os.path.basename(file)}, line {line})' if file else what


def in_traced_code(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """The exception of this class for which AutoGraph has raised `error`; it does so around a model_fn of replicas."""
    if not text_of(error).startswith(_TRACED):
        return None
    before = error.__context__
    while before is not None and not isinstance(before, kind):
        before = before.__context__
    return before


def first_line(error: BaseException) -> str:
    """The first line of its text that tells something."""
    text = text_of(error)
    cause = _cause_in_traced_code(text)
    if cause:
        return cause
    lines = [_PREFIX.sub('', line.strip()) for line in text.splitlines()]
    telling = [line for line in lines if line and not line.startswith(_TELLS_NOTHING)]
    return telling[0] if telling else type(error).__name__


def short(text: str) -> str:
    return text if len(text) <= MOST else f'{text[:MOST]}...'


def text_of(error: BaseException) -> str:
    return str(getattr(error, 'message', None) or error)


def _cause_in_traced_code(text: str) -> str | None:
    """'KeyError: ...', which AutoGraph puts after an empty line; None for other texts."""
    if not text.startswith(_TRACED):
        return None
    lines = iter(text.splitlines())
    for line in lines:
        if not line.strip():
            following = next(lines, '').strip()
            if following and not following.startswith('File "') and not following.endswith(_TRACED):
                return following
    return None


def _place(error: BaseException, text: str) -> tuple[str, int]:
    """The innermost line of the job's own code: in the text, else in the traceback. ('', 0): there is none."""
    named = [(file, int(line)) for file, line in _FRAME.findall(text)]
    raised = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    for frames in (named, raised):
        for file, line in reversed(frames):
            if _is_of_the_job(file):
                return file, line
    return '', 0


def _is_of_the_job(file: str) -> bool:
    if file.startswith('<') or _GENERATED in file:
        return False
    return not os.path.abspath(file).startswith(_NOT_OF_A_JOB)
