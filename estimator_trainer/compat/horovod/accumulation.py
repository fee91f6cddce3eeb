"""Gradients of several passes are added up before the ranks exchange them: backward_passes_per_step."""

import tensorflow as tf

v1 = tf.compat.v1


class Accumulation:
    """Adds up gradients in this process, and lets every N-th pass through.

    Args:
        passes: N.
        averages: divide by N.
        reduce: gradients -> the same of all ranks.
    """

    def __init__(self, passes: int, averages: bool, reduce):
        if passes < 1:
            raise ValueError(f'backward_passes_per_step={passes}: give 1 or more')
        self._passes, self._divisor, self._reduce = passes, passes if averages else 1, reduce
        self._sums: dict = {}  # by graph, or for all that runs at once
        self._due: dict = {}

    def reduced(self, gradients, variables) -> list:
        """What to apply; after a pass that is not the N-th, the gradients of this pass, which `apply` leaves out."""
        if self._passes == 1:
            return self._reduce(list(gradients))
        present = [index for index, gradient in enumerate(gradients) if gradient is not None]
        given = [tf.convert_to_tensor(gradients[index]) for index in present]
        counter, sums = self._made([(variables[index].shape, each.dtype) for index, each in zip(present, given)])
        with tf.control_dependencies([total.assign_add(each) for total, each in zip(sums, given)]):
            due = tf.equal(counter.assign_add(1) % self._passes, 0)

        def all_passes():
            values = [total.read_value() for total in sums]
            with tf.control_dependencies(values):
                found = [each / self._divisor for each in self._reduce(values)]
            with tf.control_dependencies(found):
                cleared = [total.assign(tf.zeros_like(total)) for total in sums]
            with tf.control_dependencies(cleared):
                return [tf.identity(each) for each in found]

        found = tf.cond(due, all_passes, lambda: [tf.identity(each) for each in given])
        self._due[self._graph()] = due
        results = list(gradients)
        for index, each in zip(present, found if isinstance(found, (list, tuple)) else [found]):
            results[index] = each
        return results

    def apply(self, gradients, apply, count):
        """Calls `apply()` after every N-th pass, and `count()` after the others. Each may return an operation."""
        if self._passes == 1:
            return apply()

        def done(function):
            with tf.control_dependencies([each for each in (function(),) if each is not None]):
                return tf.constant(True)

        with tf.control_dependencies([tf.convert_to_tensor(each) for each in gradients if each is not None]):
            return tf.group(tf.cond(self._due[self._graph()], lambda: done(apply), lambda: done(count)))

    def _graph(self):
        return None if tf.executing_eagerly() else v1.get_default_graph()

    def _made(self, kinds):
        """(counter, sums) of this graph. They are local variables: no checkpoint has them."""
        with tf.init_scope():
            graph = self._graph()
            if graph not in self._sums:
                made = [_variable((), tf.int64)] + [_variable(shape, dtype) for shape, dtype in kinds]
                self._sums[graph] = made[0], made[1:]
            return self._sums[graph]


def _variable(shape, dtype):
    return v1.Variable(
        tf.zeros(shape, dtype),
        trainable=False,
        collections=[v1.GraphKeys.LOCAL_VARIABLES],
        name='accumulated',
        use_resource=True,
    )
