"""The Python code of a notebook."""

import re

_MAGICS_OF_PYTHON = ('%%time', '%%timeit', '%%capture', '%%prun')  # what follows is Python
_SHELL = re.compile(r'(pip|conda|apt|apt-get|cd|ls|cat|cp|mv|rm|mkdir|wget|gsutil|gcloud) +[\w./~-]')  # needs no `!`
_ASSIGNED = re.compile(r'(\s*[\w., ]+= *)[!%]')


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
