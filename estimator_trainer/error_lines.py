"""The line that tells something, in the text of an exception or in the output of a program. Pure.

Three kinds of texts have several lines of which the first tells nothing: those of TensorFlow's runtime, those of a
Python function that an operation runs, and those of AutoGraph, which has traced the code ("in user code:").
"""

import re
from collections.abc import Sequence

MOST = 200  # characters of a text
TRACED = 'in user code:'  # what AutoGraph's texts begin with; then the frames, and at last the exception as it was
COMPAT = 'compat: '  # what a line of `compat` begins with, which says what to do
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
_TRACEBACK = 'Traceback (most recent call last)'
_CLASS = re.compile(r'[\w.]*\b([A-Za-z_]\w*)(?:: (.*))?')


def telling_line(text: str) -> str:
    """The first line of an exception's text that tells something; '' where none does."""
    cause = cause_in_traced_code(text)
    if cause:
        return cause
    lines = [_PREFIX.sub('', line.strip()) for line in text.splitlines()]
    telling = [line for line in lines if line and not line.startswith(_TELLS_NOTHING)]
    return telling[0] if telling else ''


def cause_in_traced_code(text: str) -> str | None:
    """'KeyError: ...', which AutoGraph puts after an empty line; None for other texts."""
    if not text.startswith(TRACED):
        return None
    lines = iter(text.splitlines())
    for line in lines:
        if not line.strip():
            following = next(lines, '').strip()
            if following and not following.startswith('File "') and not following.endswith(TRACED):
                return following
    return None


def short(text: str) -> str:
    return text if len(text) <= MOST else f'{text[:MOST]}...'


def last_traceback(lines: Sequence[str]) -> Sequence[str]:
    """What a program has printed from its last traceback on; () without one."""
    begins = [place for place, line in enumerate(lines) if line.startswith(_TRACEBACK)]
    return lines[begins[-1] :] if begins else ()


def last_cure(lines: Sequence[str]) -> str:
    """What `compat` has printed after the last traceback in the output of a program; '' if nothing."""
    cure = next((line for line in last_traceback(lines) if line.startswith(COMPAT)), '')
    return cure.removeprefix(COMPAT)


def last_words(lines: Sequence[str]) -> str:
    """What the last traceback in the output of a program says: 'InvalidArgumentError: …', or the cure that `compat`
    has printed after it. '' without a traceback."""
    after = last_traceback(lines)[1:]
    place = next((place for place, line in enumerate(after) if line and not line.startswith(' ')), None)
    if place is None:
        return ''
    cure = last_cure(lines)
    if cure:
        return cure
    found = _CLASS.fullmatch(after[place])
    if found is None:
        return short(after[place])
    text = '\n'.join([found[2] or '', *after[place + 1 :]])
    telling = telling_line(text)
    if found[2] is None or not telling:  # what follows is not of the exception
        return found[1]
    return short(telling if cause_in_traced_code(text) else f'{found[1]}: {telling}')
