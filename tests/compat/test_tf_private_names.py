"""Classes of ours that extend TensorFlow's and Keras's use none of their private names, and take none by chance."""

import ast
import inspect
import os
import textwrap

import tensorflow as tf

from tests.compat.test_private_names import COMPAT, is_private, is_self, sources

MODULES = {'tf': tf, 'v1': tf.compat.v1, '_v1': tf.compat.v1}


def private_names(tree):
    """What a class of this source calls its own."""
    for node in ast.walk(tree):
        name = getattr(node, 'attr', '') if is_self(getattr(node, 'value', None)) else getattr(node, 'name', None) or ''
        if is_private(name):
            yield name


def names_of_base(kind):
    for each in inspect.getmro(kind):
        yield from filter(is_private, vars(each))
        if each.__module__ != 'builtins' and each is not object:
            yield from private_names(ast.parse(textwrap.dedent(inspect.getsource(each))))


def test_none_is_shared_with_a_class_that_it_extends():
    seen, shared = 0, {}
    for path, tree in sources('estimator_trainer'):
        if COMPAT in path.parents:
            continue
        for found in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            for base in found.bases:
                module, *names = ast.unparse(base).split('.')
                if module not in MODULES:
                    continue
                kind = MODULES[module]
                for name in names:
                    kind = getattr(kind, name)
                seen += 1
                common = {*private_names(found)} & {*names_of_base(kind)}
                if common:
                    shared[f'{os.path.basename(path)}: {found.name}'] = common
    assert seen >= 10 and not shared
