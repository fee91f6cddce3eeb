"""Identifiers say what a thing is, and docstrings begin with what they are about."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2] / 'estimator_trainer'
ROOMS = (
    'compat',
    'data',
    'evaluation',
    'jobs',
    'lifecycle',
    'run_dir',
    'secure',
    'submit',
    'supervisor',
    'this_process',
    'training',
)
SAY_NOTHING = {
    *('told', 'found', 'shown', 'of', 'mine', 'here', 'Next', 'Told', 'Alone', 'Continued', 'Unneeded', 'wanted'),
    *('whose', 'pace', 'tied', 'owed'),
}
BEGINNINGS = ('Of ', 'The same', 'From here on', 'In place of')


def _defined(node) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    return [node.attr] if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) else []


@pytest.mark.parametrize('room', ROOMS)
def test_names_and_docstrings(room):
    problems = []
    for path in sorted((ROOT / room).rglob('*.py')):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            where = f'{path.name}:{getattr(node, "lineno", 1)}'
            problems += [f'{where}: {name}' for name in _defined(node) if name.strip('_') in SAY_NOTHING]
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (ast.get_docstring(node) or '').startswith(
                BEGINNINGS
            ):
                problems.append(f'{where}: the docstring of {node.name} begins with a reference')
    assert not problems, '\n'.join(
        [
            'Rename what has a name of SAY_NOTHING to what it is, such as a noun with its kind; and let a docstring '
            'begin with what it is about, instead of one of BEGINNINGS:',
            *problems,
        ]
    )
