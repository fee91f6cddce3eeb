"""Which TensorFlow names a program uses, and where: follows imports and other names of modules."""

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

ROOTS = ('tensorflow', 'tensorflow_estimator')
PRIVATE = ('python', 'core', 'compiler', 'tools', 'dtensor')  # packages in tensorflow that have no public names
STAR = 'import *'
OLD_OPTIMIZER = 'optimizer of v1'
_Names = dict[str, str]  # 'tf' -> 'tensorflow.compat.v1'
_GUARDS = ('ImportError', 'ModuleNotFoundError', 'AttributeError', 'Exception')


class Use(NamedTuple):
    """A name that is used.

    Attributes:
        name: 'tf.train.Saver', 'tensorflow.python.ops.x' for what is not public, '.shard' for a method of any object.
        line: of the program.
        v1: it was reached through tf.compat.v1.
        arguments: the names of the arguments, if it is called; also 'optimizer of v1' where one of them makes an
            optimizer of TensorFlow 1.
        imported: the line is the import itself.
        guarded: the program copes where it is missing: it stands in a `try` that catches that, or in a branch that is
            taken where it is there, such as `if hasattr(tf, 'contrib'):`.
        of_tpu: it stands in a branch that is taken with a TPU only, such as `if FLAGS.use_tpu:`.
        through: the name of TensorFlow that the expression begins with: 'tf.flags' after `flags = tf.flags`.
    """

    name: str
    line: int
    v1: bool = False
    arguments: tuple[str, ...] = ()
    imported: bool = False
    guarded: bool = False
    of_tpu: bool = False
    through: str = ''


def find(tree: ast.Module, packages: Sequence[str] = ()) -> list[Use]:
    """The uses in a program. `packages` are followed as TensorFlow is."""
    visitor = _Visitor((*ROOTS, *packages))
    visitor.names = _scope(tree.body, {}, visitor.roots)
    visitor.visit(tree)
    return sorted(visitor.found, key=lambda use: use.line)


def public(dotted: str) -> tuple[str, bool]:
    """'tensorflow.compat.v1.train.Saver' -> ('tf.train.Saver', True)."""
    parts = dotted.split('.')
    if parts[0] != 'tensorflow' or (len(parts) > 1 and parts[1] in PRIVATE):
        return dotted, False
    parts, v1 = parts[1:], False
    if parts[:2] == ['_api', 'v2']:
        parts = parts[2:]
    while parts[:1] == ['compat'] and parts[1:2] in (['v1'], ['v2']):
        v1, parts = parts[1] == 'v1', parts[2:]
    if parts[:1] == ['contrib'] and parts[2:3] == ['python']:  # tf.contrib.training.python.training.hparam.HParams
        parts = [*parts[:2], parts[-1]]
    return '.'.join(('tf', *parts)), v1


class _Visitor(ast.NodeVisitor):
    def __init__(self, roots: tuple[str, ...]):
        self.roots = roots
        self.names: _Names = {}
        self.found: list[Use] = []
        self.guards = 0
        self.tpus = 0
        self.guarded: set[str] = set()  # names that the program imports in a `try`

    def _add(
        self, dotted: str, node: ast.stmt | ast.expr, arguments: tuple[str, ...] = (), imported: bool = False
    ) -> None:
        name, v1 = public(dotted)
        first = _first(node)
        guarded = self.guards > 0 or first in self.guarded
        through = '' if imported else public(self.names[first])[0]
        self.found.append(Use(name, node.lineno, v1, arguments, imported, guarded, self.tpus > 0, through))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split('.')[0] in self.roots:
                self._add(alias.name, node, imported=True)
                self._guard(alias, alias.name)

    def _guard(self, alias: ast.alias, dotted: str) -> None:
        if self.guards and public(dotted)[0] != 'tf':  # TensorFlow itself comes from one import or the other
            self.guarded.add(alias.asname or alias.name.split('.')[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or (node.module or '').split('.')[0] not in self.roots:
            return
        for alias in node.names:
            if alias.name == '*':
                self.found.append(Use(STAR, node.lineno, imported=True))
                self._add(node.module, node, imported=True)
            else:
                self._add(f'{node.module}.{alias.name}', node, imported=True)
                self._guard(alias, f'{node.module}.{alias.name}')

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self.names and isinstance(node.ctx, ast.Load):
            self._add(self.names[node.id], node)

    def visit_Attribute(self, node: ast.Attribute, arguments: tuple[str, ...] = ()) -> None:
        meaning = _meaning(node, self.names)
        if meaning is not None:
            self._add(meaning, node, arguments)
            return
        line = node.end_lineno or node.lineno  # of a chain of calls over several lines: that of the method
        self.found.append(Use(f'.{node.attr}{_of_a_size(node)}', line, arguments=arguments, guarded=self.guards > 0))
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        arguments = tuple(keyword.arg for keyword in node.keywords if keyword.arg)
        if any(self._makes_old_optimizer(keyword.value) for keyword in node.keywords):
            arguments += (OLD_OPTIMIZER,)
        if isinstance(node.func, ast.Attribute):
            first = ast.unparse(node.args[0]) if node.args else ''
            if 'input_fn' in first:
                arguments = ('input_fn', *arguments)  # estimator.train(input_fn, ...)
            elif first.startswith('lambda') or 'setter' in first:
                arguments = ('function', *arguments)  # tf.device(device_setter)
            self.visit_Attribute(node.func, arguments)
        elif isinstance(node.func, ast.Name) and node.func.id in self.names:
            self._add(self.names[node.func.id], node, arguments)
        else:
            self.visit(node.func)
        for child in (*node.args, *node.keywords):
            self.visit(child)

    def _makes_old_optimizer(self, node: ast.expr) -> bool:
        node = node.body if isinstance(node, ast.Lambda) else node
        meaning = _meaning(node.func, self.names) if isinstance(node, ast.Call) else None
        name = public(meaning)[0] if meaning else ''
        return name.startswith('tf.train.') and name.endswith('Optimizer')

    def visit_Try(self, node: ast.Try) -> None:
        guards = any(_catches_absence(handler) for handler in node.handlers)
        self.guards += guards
        for tried in node.body:
            self.visit(tried)
        self.guards -= guards
        for child in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(child)

    def _visit_branches(self, node) -> None:
        self.visit(node.test)
        negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
        test = node.test.operand if negated else node.test
        of_tpu, guards = _asks_for_tpu(test), self._asks_for_presence(test)
        for branch, is_taken in ((node.body, not negated), (node.orelse, negated)):
            self.tpus += of_tpu and is_taken
            self.guards += guards and is_taken
            for child in branch if isinstance(branch, list) else [branch]:
                self.visit(child)
            self.tpus -= of_tpu and is_taken
            self.guards -= guards and is_taken

    def _asks_for_presence(self, test: ast.expr) -> bool:
        """Whether a condition holds with a name of TensorFlow only, `hasattr(tf, 'contrib')`, or with TensorFlow 1:
        `tf.__version__.startswith('1.')`."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return any(map(self._asks_for_presence, test.values))
        if not isinstance(test, ast.Call) or not test.args:
            return False
        if isinstance(test.func, ast.Name) and test.func.id == 'hasattr':
            return _meaning(test.args[0], self.names) is not None
        asked, first = ast.unparse(test.func), test.args[0]
        is_of_1 = isinstance(first, ast.Constant) and str(first.value).startswith('1')
        return asked.endswith('__version__.startswith') and is_of_1 and _first(test.func) in self.names

    visit_If = visit_IfExp = _visit_branches

    def _visit_function(self, node) -> None:
        for child in (*getattr(node, 'decorator_list', ()), node.args, getattr(node, 'returns', None)):
            if child:
                self.visit(child)  # defaults and annotations belong to the outer scope
        every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
        body = node.body if isinstance(node.body, list) else [node.body]
        outer, self.names = self.names, _scope(body, self.names, self.roots, [each.arg for each in every if each])
        for child in body:
            self.visit(child)
        self.names = outer

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function


def _first(node: ast.AST) -> str:
    """The name that an expression begins with."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ''


def _asks_for_tpu(test: ast.expr) -> bool:
    """Whether a condition holds with a TPU only: `use_tpu`, `FLAGS.use_tpu and x`, `strategy == 'tpu'`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(map(_asks_for_tpu, test.values))
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
        return any(isinstance(one, ast.Constant) and one.value == 'tpu' for one in (test.left, *test.comparators))
    return isinstance(test, ast.Name | ast.Attribute | ast.Subscript) and 'use_tpu' in ast.unparse(test)


def _of_a_size(node: ast.Attribute) -> str:
    """' of a size' for x.shape[0].value and x.get_shape()[0].value: TensorFlow 1's Dimension."""
    of = node.value.value if isinstance(node.value, ast.Subscript) else None
    of = of.func if isinstance(of, ast.Call) else of
    return ' of a size' if isinstance(of, ast.Attribute) and of.attr in ('shape', 'get_shape') else ''


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    if any(isinstance(node, ast.Raise) for node in ast.walk(handler)):
        return False
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in _GUARDS for node in ast.walk(handler.type))


def _scope(body: Sequence[ast.AST], outer: _Names, roots: Sequence[str], parameters: Sequence[str] = ()) -> _Names:
    """What names mean in a module or function."""
    names = {name: means for name, means in outer.items() if name not in parameters}
    own: _Names = {}
    for name, means in _bound(body, names, roots):
        if means is None and name not in own:
            names.pop(name, None)  # a variable of the same name hides the module
        elif means is not None:
            # The first meaning counts: `try: import tensorflow.compat.v1 as tf`, then `except: import tensorflow`.
            # But `tf = tf.compat.v1` means what it says.
            if name not in own or means.startswith(f'{own[name]}.'):
                own[name] = names[name] = means
    return names


def _bound(body: Sequence[ast.AST], names: _Names, roots: Sequence[str]) -> Iterator[tuple[str, str | None]]:
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
            means = _meaning(node.value, names)
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


def _meaning(node: ast.AST, names: _Names) -> str | None:
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
