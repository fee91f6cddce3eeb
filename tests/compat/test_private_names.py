"""Outside compat nothing patches TensorFlow, Keras or any other library, or uses a private name of theirs."""

import ast
import pathlib
import sys

import pytest

from estimator_trainer.compat import patches
from estimator_trainer.compat.patches import table

ROOT = pathlib.Path(__file__).parents[2]
COMPAT = ROOT / 'estimator_trainer' / 'compat'
OURS = ('estimator_trainer', 'tf_config', 'benchmarks', 'tests')
# tensorflow.core holds the formats of files, which do not change.
PRIVATE = (
    'tensorflow.python',
    'tensorflow.compiler',
    'tensorflow_estimator',
    'tf_keras',
    'keras.src',
    'keras._tf_keras',
)
BELOW_COMPAT = {'compat', 'error_lines', 'errors', 'exit_codes', 'this_process'}
BY_NAME = ('getattr', 'setattr', 'hasattr', 'delattr')
OF_NAMED_TUPLES = {'_replace', '_asdict', '_fields', '_make'}
ALLOWED: set = set()  # (file, name): it stays empty


def sources(*folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob('*.py')):
            yield path, ast.parse(path.read_text(encoding='utf-8'))


def imports(tree):
    """(what is imported, the name that the file has for it) of each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield each.name, each.asname or each.name.partition('.')[0]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for each in node.names:
                yield f'{node.module}.{each.name}', each.asname or each.name


def top(name):
    return name.partition('.')[0]


def is_private(name):
    return name.startswith('_') and not name.startswith('__')


def names_of(tree):
    """Private names that the file defines."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
            yield node.attr


def is_self(node):
    return isinstance(node, ast.Name) and node.id in ('self', 'cls')


def is_function(node):
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def is_for_type_checkers(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == 'TYPE_CHECKING'


def root(node):
    """The name with which `a.b.c` or `a(b).c` begins."""
    while isinstance(node, (ast.Attribute, ast.Call)):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else None


def found(tree, inherited=frozenset()):
    """Private names of others and patches in a file, as (line, text).

    Args:
        inherited: private names of classes of ours that the file imports.
    """
    foreign = {alias: name for name, alias in imports(tree) if top(name) not in OURS}
    aliases = {  # v1 = tf.compat.v1
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and root(node.value) in foreign and isinstance(node.value, ast.Attribute)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    own = {*names_of(tree), *OF_NAMED_TUPLES}
    for name, _ in imports(tree):
        parts = name.split('.')
        if f'{name}.'.startswith(tuple(f'{each}.' for each in PRIVATE)):
            yield 0, name
        elif top(name) not in (*OURS, *sys.stdlib_module_names) and any(map(is_private, parts)):
            yield 0, name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            library = foreign.get(root(node), '')
            if isinstance(node.ctx, (ast.Store, ast.Del)):
                if (library and library != 'sys') or root(node) in aliases:
                    yield node.lineno, f'patches {ast.unparse(node)}'
            if top(library) == 'tensorflow' and node.attr in ('python', '__internal__'):
                yield node.lineno, ast.unparse(node)
            of_python = isinstance(node.value, ast.Name) and top(library) in sys.stdlib_module_names
            known = own | inherited if is_self(node.value) else own
            if is_private(node.attr) and node.attr not in known and not of_python:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and getattr(node.func, 'id', '') in BY_NAME:
            name = node.args[1]
            texts = [each.value for each in ast.walk(name) if isinstance(each, ast.Constant)]
            if any(is_private(text) and text not in own for text in texts if isinstance(text, str)):
                yield node.lineno, ast.unparse(node)
            if node.func.id in ('setattr', 'delattr') and (root(node.args[0]) in {*foreign, *aliases} - {'sys'}):
                yield node.lineno, f'patches {ast.unparse(node)}'


def inherited_by(tree):
    """The private names in the files of ours from which this one imports."""
    for name, _ in imports(tree):
        for module in (name, name.rpartition('.')[0]):
            path = ROOT / (module.replace('.', '/') + '.py')
            if top(name) in OURS and path.is_file():
                yield from names_of(ast.parse(path.read_text(encoding='utf-8')))


def test_no_private_name_and_no_patch_outside_compat():
    wrong = [
        f'{path.relative_to(ROOT)}:{line}: {text}'
        for path, tree in sources('estimator_trainer', 'tf_config', 'benchmarks')
        if COMPAT not in path.parents
        for line, text in found(tree, frozenset(inherited_by(tree)))
        if (str(path.relative_to(ROOT)), text) not in ALLOWED
    ]
    assert not wrong, '\n'.join(['This belongs into a file of estimator_trainer/compat/patches:', *wrong])


@pytest.mark.parametrize(
    'program',
    [
        'from tensorflow.python.eager import context',
        'def f():\n    import tensorflow_estimator.python.estimator.estimator as upstream',
        'from tf_keras.src import backend',
        'import keras\nkeras.src.backend._x()',
        'from keras._tf_keras import keras',
        'import tensorflow as tf\ntf.python.eager',
        'import tensorflow as tf\ntf.__internal__.tracking',
        'def f(estimator):\n    return estimator._model_fn',
        'def f(estimator):\n    estimator._model_fn = 1',
        'class Hook:\n    def f(self):\n        self._timer.x()',
        "def f(head):\n    return getattr(head, '_loss_fn', None)",
        "def f(optimizer, name):\n    return getattr(optimizer, name if name else f'_{name}')",
        'import tensorflow as tf\nv1 = tf.compat.v1\ndef f():\n    v1.train.Optimizer.minimize = None',
        'import subprocess\nsubprocess.Popen.wait = None',
        'import urllib3\nsetattr(urllib3.Retry, "a", None)',
        'import tensorflow as tf\ndef f():\n    del tf.Variable.assign',
    ],
)
def test_what_is_found(program):
    assert list(found(ast.parse(program)))


@pytest.mark.parametrize(
    'program',
    [
        'import os\nos._exit(0)',
        'import sys\nsys.argv = []',
        'class A:\n    def __init__(self):\n        self._x = 1\ndef f(a):\n    return a._x',
        'from estimator_trainer.training import trainer\ntrainer.Setup()._replace(a=1)',
        'from tensorflow.core.framework import graph_pb2',
    ],
)
def test_what_is_none(program):
    assert not list(found(ast.parse(program)))


def test_compat_imports_nothing_above_it():
    above = {
        f'{path.relative_to(ROOT)}: {name}'
        for path, tree in sources('estimator_trainer/compat')
        if path != COMPAT / '__main__.py'  # a command, which calls the doctor
        for name, _ in imports(tree)
        if top(name) == 'estimator_trainer' and name.split('.')[1] not in BELOW_COMPAT
    }
    assert not above


@pytest.mark.parametrize('module', ['data.pipeline', 'data.files.source', 'jobs.job', 'run_dir.bundle'])
def test_what_programs_without_estimators_import_leaves_their_keras_alone(module):
    """Compat chooses Keras 2 as soon as it is imported."""
    reached, left = set(), {f'estimator_trainer.{module}'}
    while left:
        name = left.pop()
        path = ROOT / (name.replace('.', '/') + '.py')
        path = path if path.is_file() else ROOT / name.replace('.', '/') / '__init__.py'
        if name not in reached and path.is_file():
            reached.add(name)
            body = ast.parse(path.read_text(encoding='utf-8')).body
            at_once = [node for node in body if not is_function(node) and not is_for_type_checkers(node)]
            for each, _ in imports(ast.Module(at_once, [])):
                left |= {each, each.rpartition('.')[0]} if top(each) == 'estimator_trainer' else set()
    assert len(reached) > 2 and 'estimator_trainer.compat' not in reached


def test_the_table_has_every_file_of_compat_that_uses_a_private_name():
    rows = {row.path for row in table.rows()}
    without = [
        str(path.relative_to(COMPAT))
        for path, tree in sources('estimator_trainer/compat')
        if path not in rows and any(found(tree, frozenset(inherited_by(tree))))
    ]
    assert not without, f'{without}: say in the docstring what is touched, what happens without it, and for whom'


def test_the_table_has_every_patch():
    names = [row.name for row in table.rows()]
    files = {path.stem for path in (COMPAT / 'patches').glob('*.py')} - {'__init__', 'table'}
    called = {name for _, names in patches.AFTER for name in names}
    assert len(names) == len(set(names))
    assert files <= {name.partition('.')[0] for name in names} and called <= set(names)
    mended = [line for line in table.lines(True, 'X') if line.startswith('mended: ')]
    assert len(mended) == len(called)
    assert not any(line.startswith('mended: ') for line in table.lines(False, 'X'))
