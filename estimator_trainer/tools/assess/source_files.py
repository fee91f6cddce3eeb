"""Finds programs and notebooks, and parses them without running them. Of a notebook only its Python code counts."""

import ast
import json
import os
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from estimator_trainer.errors import UsageError

SUFFIXES = ('.py', '.ipynb')
_STRINGS = re.compile(r'""".*?"""|\'\'\'.*?\'\'\'|"[^"\n]*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL)
_DOTTED = re.compile(r'(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+')
_MAGICS_OF_PYTHON = ('%%time', '%%timeit', '%%capture', '%%prun')  # what follows is Python
_SHELL = re.compile(r'(pip|conda|apt|apt-get|cd|ls|cat|cp|mv|rm|mkdir|wget|gsutil|gcloud) +[\w./~-]')  # needs no `!`
_ASSIGNED = re.compile(r'(\s*[\w., ]+= *)[!%]')
_SHARDS = ('shard', 'input_context', 'num_shards', 'shard_index', 'num_input_pipelines', 'auto_shard')
_NOT_OF_TRAINING = ('serving', 'receiver', 'eval', 'predict', 'test', 'valid', 'infer')
_MADE_UP = ('synth', 'dummy', 'fake')  # every worker may have the same
_SKIPPED = ('__pycache__', 'build', 'dist', 'node_modules', 'site-packages')  # and folders that begin with a dot


class SourceFile(NamedTuple):
    """A file. If it cannot be parsed, `problem` says why and `line` where; `tree` then has only its imports and dotted
    names, or is None if there is nothing to read.

    Lines of a notebook are those of its code cells, one after the other; `cells` has the first line of each.
    """

    path: str
    tree: ast.Module | None
    problem: str = ''
    line: int = 1
    cells: tuple[int, ...] = ()

    def place(self, line: int) -> str:
        """file:line, and file:cell 2:3 for a notebook: the third line of its second code cell."""
        if not self.cells:
            return f'{self.path}:{line}'
        cell = sum(first <= line for first in self.cells)
        return f'{self.path}:cell {cell}:{line - self.cells[cell - 1] + 1}'


def find(paths: Sequence[str]) -> list[str]:
    """The files that paths name: each is a file, or a folder of which all programs and notebooks are taken.

    Raises:
        UsageError: a path is not there, or is no program, or a folder has none.
    """
    found = []
    for path in paths:
        if os.path.isdir(path):
            files = sorted(_below(path))
            if not files:
                raise UsageError(f'{path}: the folder has no file that ends with .py or .ipynb.')
            found += files
        elif not os.path.exists(path):
            raise UsageError(f'{path}: there is no such file or folder.')
        elif path.endswith('.ipynb') or _is_program(path):
            found.append(path)
        else:
            raise UsageError(f'{path}: is neither a Python program nor a notebook (.ipynb).')
    return list(dict.fromkeys(found))


def _is_program(path: str) -> bool:
    return path.endswith('.py') or not os.path.splitext(path)[1]  # a script may have no suffix


def _below(folder: str) -> Iterator[str]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith('.')]
        if 'pyvenv.cfg' in names:  # a virtual environment
            folders[:] = []
            continue
        yield from (os.path.join(root, name) for name in names if name.endswith(SUFFIXES))


def read(path: str) -> SourceFile:
    """Parses a file.

    Raises:
        OSError: it cannot be read.
    """
    try:
        if path.endswith('.ipynb'):
            with open(path, encoding='utf-8') as file:
                return _notebook(path, *code_of_notebook(json.load(file)))
        else:
            with tokenize.open(path) as file:  # heeds `# -*- coding: ... -*-`
                text = file.read()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return SourceFile(path, None, f'is no readable notebook ({error})' if path.endswith('.ipynb') else f'{error}')
    except SyntaxError as error:  # an unknown encoding
        return SourceFile(path, None, f'{error}')
    return parse(path, text)


def parse(path: str, text: str, cells: tuple[int, ...] = ()) -> SourceFile:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # '\d' in somebody else's string
            return SourceFile(path, ast.parse(text), cells=cells)
    except SyntaxError as error:
        return SourceFile(path, _names_only(text), _say(error), error.lineno or 1, cells)
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes; an expression too deep
        return SourceFile(path, None, f'cannot be parsed ({error})', cells=cells)


def _notebook(path: str, text: str, cells: tuple[int, ...]) -> SourceFile:
    """Parses the cells one by one, so that one that is no Python does not hide the others."""
    lines = text.splitlines()
    problem, at = '', 1
    for start, end in zip(cells, (*(next_cell - 1 for next_cell in cells[1:]), len(lines))):
        cell = parse(path, '\n'.join(lines[start - 1 : end]))
        if cell.problem:
            problem, at = problem or cell.problem, at if problem else start + cell.line - 1
            lines[start - 1 : end] = [''] * (end - start + 1)
    return parse(path, '\n'.join(lines), cells)._replace(problem=problem, line=at)


def code_of_notebook(notebook: dict) -> tuple[str, tuple[int, ...]]:
    """The code cells of a notebook as one program, and the line on which each begins."""
    sheets = notebook.get('worksheets')  # format 3, until 2015
    cells = [cell for sheet in sheets for cell in sheet['cells']] if sheets else notebook['cells']
    lines: list[str] = []
    starts = []
    for cell in cells:
        if cell['cell_type'] != 'code':
            continue
        source = cell.get('source', cell.get('input', ''))
        text = source if isinstance(source, str) else ''.join(source)
        starts.append(len(lines) + 1)
        lines += _without_magics(text.splitlines() or [''])
    return '\n'.join(lines) + '\n', tuple(starts or [1])


def _without_magics(lines: list[str]) -> list[str]:
    """Replaces what IPython alone understands, and keeps the number of lines."""
    if _is_python(lines):  # whatever its lines begin with: `%` goes on with an expression
        return lines
    first = next((line for line in lines if line.strip()), '')
    if first.startswith('%%') and first.split()[0] not in _MAGICS_OF_PYTHON:
        return [''] * len(lines)  # a cell of a shell or of another language
    kept, goes_on = [], False
    for line in lines:
        bare = line.lstrip()
        indent = line[: len(line) - len(bare)]
        assigned = _ASSIGNED.match(line)
        if goes_on:
            goes_on, line = bare.endswith('\\'), ''
        elif assigned:  # names = !ls
            goes_on, line = bare.endswith('\\'), f'{assigned.group(1)}None'
        elif bare.startswith(('%', '!', '?')) or _SHELL.match(line) or (bare.endswith('?') and '#' not in bare):
            goes_on, line = bare.endswith('\\'), f'{indent}pass'
        kept.append(line)
    return kept


def _is_python(lines: list[str]) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            ast.parse('\n'.join(lines))
    except (ValueError, RecursionError, MemoryError, SyntaxError):
        return False
    return True


def _names_only(text: str) -> ast.Module:
    """What can be read of a program of Python 2: its imports and its dotted names, each on its line."""
    lines = []
    for line in _STRINGS.sub(lambda found: '\n' * found.group().count('\n'), text).splitlines():
        line = line.strip()
        kept = line if line.startswith(('import ', 'from ')) else '; '.join(_DOTTED.findall(line))
        try:
            ast.parse(kept)
        except (SyntaxError, ValueError):
            kept = ''
        lines.append(kept)
    return ast.parse('\n'.join(lines))


def _say(error: SyntaxError) -> str:
    line = (error.text or '').strip()
    python_2 = 'Missing parentheses in call' in error.msg or 'multiple exception types' in error.msg
    python_2 = python_2 or any(
        sign in error.msg for sign in ('leading zeros', 'octal', '<>', 'inconsistent use of tabs')
    )
    what = 'is Python 2' if python_2 else 'is no Python 3'
    return f'{what} ({error.msg}): {line}' if line else f'{what} ({error.msg})'


def imported_beside(sources: Sequence[SourceFile]) -> list[str]:
    """The files beside these ones that they import, and that are none of them."""
    read = {os.path.realpath(source.path) for source in sources}
    found: dict[str, None] = {}
    for source in sources:
        for name in _imports(source.tree) if source.tree else ():
            path = os.path.join(os.path.dirname(source.path), *name.split('.'))
            for file in (f'{path}.py', os.path.join(path, '__init__.py')):
                if os.path.isfile(file) and os.path.realpath(file) not in read:
                    found[file] = None
    return list(found)


def _imports(tree: ast.Module) -> Iterator[str]:
    """The dotted names of the modules that a program imports, and of what it takes from them, which may be modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level < 2:  # from here, or from the folder of the file
            yield from filter(None, [node.module])
            yield from ('.'.join(filter(None, [node.module, each.name])) for each in node.names)


def unsharded_input_fns(tree: ast.Module) -> list[tuple[str, int]]:
    """(name, line) of each function that is called ..input_fn.. and takes no input_context and shards nothing.

    A function within another counts as part of it. Those for evaluation and export are left out: one task calls them.
    So are those of made-up data.
    """
    return list(_unsharded_in(tree))


def _unsharded_in(node: ast.AST) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and 'input_fn' in child.name:
            if (
                not any(word in child.name for word in (*_NOT_OF_TRAINING, *_MADE_UP))
                and not _shards(child)
                and _reads(child)
            ):
                yield child.name, child.lineno
        else:
            yield from _unsharded_in(child)


def _shards(function: ast.FunctionDef) -> bool:
    words = (getattr(node, name, None) for node in ast.walk(function) for name in ('id', 'attr', 'arg'))
    return any(word in _SHARDS for word in words)


def _reads(function: ast.FunctionDef) -> bool:
    """Whether it returns something: a method that is only declared does not."""
    return any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(function))


def has_cluster(tree: ast.Module) -> bool:
    """Whether the program reads or writes TF_CONFIG."""
    return any(isinstance(node, ast.Constant) and node.value == 'TF_CONFIG' for node in ast.walk(tree))
