"""Finds the input functions that give every worker all examples."""

import ast
from collections.abc import Iterator

_SHARDS = ('shard', 'input_context', 'num_shards', 'shard_index', 'num_input_pipelines', 'auto_shard')
_NOT_OF_TRAINING = ('serving', 'receiver', 'eval', 'predict', 'test', 'valid', 'infer')
_MADE_UP = ('synth', 'dummy', 'fake')  # every worker may have the same


def unsharded(tree: ast.Module) -> list[tuple[str, int]]:
    """(name, line) of each function that is called ..input_fn.. and takes no input_context and shards nothing.

    A function within another counts as part of it. Those for evaluation and export are left out: one task calls them.
    So are those of made-up data.
    """
    return list(_find(tree))


def _find(node: ast.AST) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and 'input_fn' in child.name:
            if (
                not any(word in child.name for word in (*_NOT_OF_TRAINING, *_MADE_UP))
                and not _shards(child)
                and _reads(child)
            ):
                yield child.name, child.lineno
        else:
            yield from _find(child)


def _shards(function: ast.FunctionDef) -> bool:
    words = (getattr(node, name, None) for node in ast.walk(function) for name in ('id', 'attr', 'arg'))
    return any(word in _SHARDS for word in words)


def _reads(function: ast.FunctionDef) -> bool:
    """Whether it returns something: a method that is only declared does not."""
    return any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(function))


def has_cluster(tree: ast.Module) -> bool:
    """Whether the program reads or writes TF_CONFIG."""
    return any(isinstance(node, ast.Constant) and node.value == 'TF_CONFIG' for node in ast.walk(tree))
