"""What the names of a module or function mean, as far as they are names of TensorFlow."""

import ast
from collections.abc import Iterator, Sequence

Names = dict[str, str]  # 'tf' -> 'tensorflow.compat.v1'


def scope(body: Sequence[ast.AST], outer: Names, roots: Sequence[str], parameters: Sequence[str] = ()) -> Names:
    """What names mean in a module or function."""
    names = {name: means for name, means in outer.items() if name not in parameters}
    own: Names = {}
    for name, means in _bound(body, names, roots):
        if means is None and name not in own:
            names.pop(name, None)  # a variable of the same name hides the module
        elif means is not None:
            # The first meaning counts: `try: import tensorflow.compat.v1 as tf`, then `except: import tensorflow`.
            # But `tf = tf.compat.v1` means what it says.
            if name not in own or means.startswith(f'{own[name]}.'):
                own[name] = names[name] = means
    return names


def _bound(body: Sequence[ast.AST], names: Names, roots: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split('.')[0] in roots:
                    yield (
                        alias.asname or alias.name.split('.')[0],
                        (alias.name if alias.asname else alias.name.split('.')[0]),
                    )
        elif isinstance(node, ast.ImportFrom):
            if not node.level and (node.module or '').split('.')[0] in roots:
                yield from ((alias.asname or alias.name, f'{node.module}.{alias.name}') for alias in node.names)
        elif isinstance(node, ast.Assign):
            means = meaning(node.value, names)
            if means and means.rpartition('.')[2].isupper():
                means = None  # FLAGS = tf.flags.FLAGS: a value, no module
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, means
                else:
                    yield from ((name, None) for name in map(_stored, ast.walk(target)) if name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, None
        elif isinstance(node, ast.Lambda):
            continue
        elif name := _stored(node):
            yield name, None
        else:
            yield from _bound(list(ast.iter_child_nodes(node)), names, roots)


def meaning(node: ast.AST, names: Names) -> str | None:
    """The dotted name that an expression is, or None if it is no name of TensorFlow."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return None
    return '.'.join((names[node.id], *reversed(parts)))


def _stored(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ''
