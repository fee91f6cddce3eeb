"""Files that have names of ours and are not ours: in a folder that the user named they stay as they are.

JSON files are known by a key that ours have, pages by a mark. One that is empty tells nothing, and is replaced.
"""

import json
import os

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names

_KEYS = {  # a key that each file of ours has; each line of a .jsonl
    file_names.CONFIG: 'job',
    file_names.TRAINING: 'state',
    file_names.STATUS: 'state',
    file_names.REPORT: 'attempts',
    file_names.EARLIER_STARTS: 'earlier_starts',
    file_names.METRICS: 'step',
    file_names.EVALUATIONS: 'step',
}
BESIDE = 'examples_beside'  # a key of examples.json, and of config.json: those that only hooks of the job have read
PAGE_MARK = '<meta name="generator" content="estimator_trainer">'
_OLD_PAGE_MARK = 'solid var(--rule)'  # of pages without the other one
_HEAD_BYTES = 16 * 2**10


def refuse_in_run(folder: str, flag: str = '--model_dir') -> None:
    """Comes before a run writes its first file.

    Raises:
        UsageError: the folder holds a file that a run would replace or append to, and that is not of a run.
    """
    of_others = [
        name
        for name, key in _KEYS.items()
        if _has_not(key, os.path.join(folder, name), is_first_line=name.endswith('.jsonl'))
    ]
    if not _has_examples(os.path.join(folder, file_names.EXAMPLES)):
        of_others.append(file_names.EXAMPLES)
    for name in of_others:
        raise UsageError(f'{flag}={folder}: its {name} is not of a run; move it away, or name another folder.')
    for name in (file_names.METRICS, file_names.EVALUATIONS):
        if why := _why_not_appendable(os.path.join(folder, name)):
            raise UsageError(f'{flag}={folder}: its {name} {why}; put a file there that this user may write.')


def _why_not_appendable(path: str) -> str:
    """'' where a run may append to the file, or may make it."""
    if os.path.islink(path):
        return 'is a symbolic link'
    may_be = not os.path.lexists(path) or (os.path.isfile(path) and os.access(path, os.W_OK))
    return '' if may_be else 'cannot be appended to'


def _has_examples(path: str) -> bool:
    """Whether the file says how many examples each checkpoint has trained, or tells nothing."""
    try:
        with open(path, encoding='utf-8') as file:
            value = json.loads(file.read().strip('\0 \r\n') or '{}')
    except OSError:
        return True
    except ValueError:
        return False
    if not isinstance(value, dict):
        return False
    value.pop(BESIDE, None)
    return all(step.isdecimal() and type(count) is int for step, count in value.items())


def refuse_json(path: str, key: str, flag: str) -> None:
    """Raises UsageError: a file is there that does not have this key, which ours has, or is no regular file."""
    _refuse_device(path, flag)
    if _has_not(key, path):
        raise UsageError(f'{flag}: {path} is there already, and is not of this command; move it away, or name another.')


def refuse_reports(page: str, json_file: str, key: str) -> None:
    """For the files of --html and --json, '' for none. Raises as `refuse_page` and `refuse_json`."""
    if page:
        refuse_page(page, '--html')
    if json_file:
        refuse_json(json_file, key, '--json')


def refuse_page(path: str, flag: str = '--out') -> None:
    """Raises UsageError: a file is there that is no page of this program, or no regular file."""
    _refuse_device(path, flag)
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return
    if head and PAGE_MARK not in head and _OLD_PAGE_MARK not in head:
        raise UsageError(
            f'{path} is there already, and is no page of this program; move it away, or name another file with {flag}.'
        )


def _refuse_device(path: str, flag: str) -> None:
    """Nothing is read from a pipe or a terminal, which may never answer, and nothing is put in its place."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise UsageError(f'{flag}: {path} is no regular file, but a device or a pipe; name a file, and print that.')


def _has_not(key: str, path: str, is_first_line: bool = False) -> bool:
    try:
        with open(path, encoding='utf-8') as file:
            text = (file.readline() if is_first_line else file.read()).strip('\0 \r\n')
        value = json.loads(text or '{}')
    except OSError:
        return False
    except ValueError:
        return not is_first_line  # ours are written whole; a line may be cut short
    if isinstance(value, list) and value:  # of several folders
        value = value[0]
    return not isinstance(value, dict) or (bool(value) and key not in value)
