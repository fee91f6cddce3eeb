"""The values and the order of what is built in one graph or in one body of a loop, a branch or a function.

A program is a list of statements `(name, a, b, k, block, block...)`: an operation on the values `a` and `b` (counted
back from the last value), a number that chooses a variant, and the statements of its bodies. All values are float32
of shape [2, 2].

Operations that touch the same resource are ordered by control dependencies, so that a program has one meaning only:
a read waits for the last write, and a write for all reads since then.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

SHAPE = [2, 2]
VARIABLES, TRAINED = 4, 2


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is known of the statements of one name.

    Attributes:
        build: (scope, x, y, k, *blocks) -> a tensor. When it is computed, all that the statement does is done.
        reads, writes: names of resources. 'variable' is the one that k chooses. What begins with '~' has no order,
            but keeps the iterations of a loop one after another.
        blocks: how many bodies it has.
    """

    build: Callable
    reads: tuple = ()
    writes: tuple = ()
    blocks: int = 0


KINDS: dict[str, Kind] = {}


def statement(reads=(), writes=(), blocks=0):
    """Registers a function as the statement of its name."""

    def register(build):
        KINDS[build.__name__.rstrip('_')] = Kind(build, tuple(reads), tuple(writes), blocks)
        return build

    return register


def touched(statements) -> tuple[set, set]:
    """(what these statements read, what they write), those of their bodies included."""
    reads, writes = set(), set()
    for name, _, _, k, *blocks in statements:
        kind = KINDS[name]
        reads |= {_of_k(resource, k) for resource in kind.reads}
        writes |= {_of_k(resource, k) for resource in kind.writes}
        for block in blocks:
            more_reads, more_writes = touched(block)
            reads |= more_reads
            writes |= more_writes
    return reads, writes


def _of_k(resource, k) -> str:
    return f'variable{k % VARIABLES}' if resource == 'variable' else resource


class Scope:
    """Builds statements.

    Args:
        shared: steps.Shared, the resources.
        values: those that the statements may use; there is at least one.
        is_inner: whether it is a body.
    """

    def __init__(self, shared, values, is_inner=False):
        self.shared, self.values, self.is_inner = shared, list(values), is_inner
        self._written, self._read = {}, {}

    def variable(self, k):
        return self.shared.variables[k % VARIABLES]

    def run(self, statements) -> None:
        for name, a, b, k, *blocks in statements:
            reads, writes = touched([(name, a, b, k, *blocks)])
            reads = {one for one in reads - writes if not one.startswith('~')}
            writes = {one for one in writes if not one.startswith('~')}
            x, y = self._value(a), self._value(b)
            before = self._before(reads, writes)
            with tf.control_dependencies(before):
                if before:  # a condition or loop of TensorFlow 1 waits for nothing but its inputs
                    x, y = tf.identity(x), tf.identity(y)
                value = KINDS[name].build(self, x, y, k, *blocks)
            value = tf.ensure_shape(value, SHAPE)
            self.values.append(value)
            for one in reads:
                self._read.setdefault(one, []).append(value.op)
            for one in writes:
                self._written[one], self._read[one] = value.op, []

    def _value(self, back) -> tf.Tensor:
        return self.values[-1 - back % len(self.values)]

    def _before(self, reads, writes) -> list:
        before = [self._written[one] for one in reads | writes if one in self._written]
        before += [op for one in writes for op in self._read.get(one, ())]
        return list(dict.fromkeys(before))

    def pending(self) -> list:
        """What has to be done before the scope is left."""
        return list(dict.fromkeys([*self._written.values(), *(op for ops in self._read.values() for op in ops)]))

    def body(self, block, *given):
        """Builds a block in the graph that is being built -> its last value, when all that it does is done."""
        inner = Scope(self.shared, [*self.values, *given], is_inner=True)
        inner.run(block)
        with tf.control_dependencies(inner.pending()):
            return tf.identity(inner.values[-1])
