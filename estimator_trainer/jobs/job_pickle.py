"""A Job as bytes, by cloudpickle, with the source of its functions.

AutoGraph translates a function by its source, and a traceback shows it; cloudpickle keeps neither the source nor the
name of its file. Here the functions keep that name, and after the Job come the statements that define them. Nothing
else of the file is kept, which may hold a password.

The file may change later, and a module of the same file has the new source. So the kept source has a name that nobody
else looks for: '/folder/./script.py'.
"""

import ast
import io
import linecache
import os
import pickle
import types
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import cloudpickle


def dumps(job: Any) -> bytes:
    """Raises whatever its parts raise that cannot be pickled."""
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.dump(job)
    pickle.dump(pickler.sources(), stream)
    return stream.getvalue()


def loads(content: bytes) -> Any:
    """The job. From here on `linecache` has the source of its functions."""
    stream = io.BytesIO(content)
    job = pickle.load(stream)
    sources = pickle.load(stream) if stream.tell() < len(content) else {}
    for name, lines in sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)  # None: it is never read anew
    return job


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]  # it has no types
    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream)
        self._codes: dict[str, list[types.CodeType]] = {}  # by the name of their file

    def reducer_override(self, obj: object) -> Any:
        if not isinstance(obj, types.CodeType):
            return super().reducer_override(obj)
        make, fields = self.dispatch_table[types.CodeType](obj)
        self._codes.setdefault(obj.co_filename, []).append(obj)
        return _code_of_file, (make, fields, _kept_name(obj.co_filename))

    def sources(self) -> dict[str, list[str]]:
        """Kept name -> lines, of files whose source is that of the functions."""
        kept = {file: _kept_lines(linecache.getlines(file), codes) for file, codes in self._codes.items()}
        return {_kept_name(file): lines for file, lines in kept.items() if lines}


def _code_of_file(make: Callable[..., types.CodeType], fields: Sequence[Any], file: str) -> types.CodeType:
    return make(*fields).replace(co_filename=file)


def _kept_name(file: str) -> str:
    """Cells of a notebook have names of their own, such as '<ipython-input-3-2f1e>'."""
    folder, name = os.path.split(os.path.abspath(file))
    return file if file.startswith('<') else os.path.join(folder, '.', name)


def _kept_lines(lines: Sequence[str], codes: Sequence[types.CodeType]) -> list[str]:
    """The lines of the statements in which the codes are defined; others are empty. [] if this is not their source: it
    has been changed since, or there is none."""
    try:
        tree = ast.parse(''.join(lines))
        # A notebook compiles each statement of a cell by itself, which gives other code.
        compiled = [tree, *(ast.Module([statement], []) for statement in tree.body)]
        there = {code for part in compiled for code in _codes_in(compile(part, '', 'exec', dont_inherit=True))}
    except (SyntaxError, ValueError, RecursionError):
        return []
    if not there.issuperset(codes):
        return []
    kept = ['\n'] * len(lines)
    for statement in tree.body:
        decorators = [each.lineno for each in getattr(statement, 'decorator_list', ())]
        first, last = min([statement.lineno, *decorators]), statement.end_lineno or statement.lineno
        if any(first <= code.co_firstlineno <= last for code in codes):
            kept[first - 1 : last] = lines[first - 1 : last]
    return kept


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_in(constant)
