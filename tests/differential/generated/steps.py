"""A training step of a program, in the default graph."""

import numpy as np
import tensorflow as tf

from tests.differential.generated.scope import SHAPE, TRAINED, VARIABLES, Scope, touched

v1 = tf.compat.v1
_NUM_BATCHES = 997
_RANDOM = np.random.RandomState(0)
_VALUES = _RANDOM.normal(size=[2, _NUM_BATCHES, *SHAPE]).astype(np.float32)
_WEIGHTS = _RANDOM.normal(size=[VARIABLES, *SHAPE]).astype(np.float32)


class Shared:
    """The resources of a graph, of which those are made that a program touches."""

    def __init__(self, names, source, references):
        def made(name, make):
            return make() if name in names else None

        self.start = []
        self.step = v1.train.get_or_create_global_step()
        self.variables = [
            v1.get_variable(
                f'variable{number}', initializer=weights, use_resource=not references, trainable=number < TRAINED
            )
            for number, weights in enumerate(_WEIGHTS)
        ]
        self.main = self._iterator(0, source)
        self.other = made('other', lambda: self._iterator(1, 'iterator'))
        self.generator = made('generator', lambda: tf.random.Generator.from_seed(7))
        self.critical = made('critical', tf.CriticalSection)
        keys = tf.range(5, dtype=tf.int64)
        self.table = made(
            'table',
            lambda: tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(keys, tf.cast(keys, tf.float32) / 5.0), default_value=-1.0
            ),
        )
        self.mutable_table = made(
            'mutable_table', lambda: tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.25)
        )
        self.queue = made('queue', lambda: tf.queue.FIFOQueue(20, tf.float32, SHAPE))
        if self.queue:
            self.start.append(self.queue.enqueue(_WEIGHTS[0]))

    def _iterator(self, number, source):
        data = tf.data.Dataset.from_tensor_slices((np.arange(_NUM_BATCHES), _VALUES[number])).repeat()
        if source == 'one_shot':
            return v1.data.make_one_shot_iterator(data)
        iterator = v1.data.make_initializable_iterator(data)
        self.start.append(iterator.initializer)
        return iterator


class Step:
    """What a program builds.

    Attributes:
        train_op, loss: of a step.
        values: of the step, whose last one may be asked for.
        summary: merged, or None.
        count, counted: the global step, and its value after the step, or None.
        start: operations before the first step.
        state: name -> what a run has changed, to be compared.
        read: name -> the next number that an iterator gives; reading it moves it.
    """

    def __init__(self, program):
        v1.set_random_seed(3)
        reads, writes = touched(program.statements)
        shared = Shared(reads | writes, program.source, program.references)
        number, batch = shared.main.get_next()
        scope = Scope(shared, [batch])
        scope.run(program.statements)
        last = scope.values[-2:]
        self.loss = tf.reduce_mean(tf.square(tf.add_n(last) - 0.5))
        self.values = [self.loss * 2.0, last[0]]
        self.train_op = self._train_op(program.optimizer, scope, number)
        self.count, self.counted = shared.step, None
        if program.counted:
            with tf.control_dependencies([self.train_op]):
                self.counted = shared.step.read_value()
        self.summary = None
        if program.summary:
            v1.summary.scalar('loss', self.loss)
            v1.summary.histogram('last', last[0])
            collected = v1.get_collection(v1.GraphKeys.SUMMARIES)  # those of bodies as well
            self.summary = v1.summary.merge([one for one in collected if one.graph is self.loss.graph])
        self.start = [v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()]
        self.fill = shared.start
        self.state = {variable.op.name: variable for variable in v1.global_variables()}
        if shared.mutable_table:
            self.state['mutable_table'] = shared.mutable_table.lookup(tf.range(5, dtype=tf.int64))
        self.read = {'main': shared.main.get_next()[0]}
        if shared.other:
            self.read['other'] = shared.other.get_next()[0]
        if shared.queue:
            self.read['queue'] = shared.queue.dequeue()

    def _train_op(self, name, scope, number):
        optimizer = {'momentum': v1.train.MomentumOptimizer(0.05, 0.9), 'adam': v1.train.AdamOptimizer(0.02)}.get(
            name, v1.train.GradientDescentOptimizer(0.1)
        )
        step, trained = scope.shared.step, v1.trainable_variables()
        pairs = [] if name == 'none' else optimizer.compute_gradients(self.loss, trained)
        pairs = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        with tf.control_dependencies([*scope.pending(), self.loss, number]):
            if not pairs:
                return tf.group(step.assign_add(1))
            if name == 'clipped':
                gradients, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.5)
                pairs = [(gradient, variable) for gradient, (_, variable) in zip(gradients, pairs)]
            if name != 'sometimes':
                return optimizer.apply_gradients(pairs, step)
            pairs = [(tf.convert_to_tensor(gradient), variable) for gradient, variable in pairs]

            def apply():
                with tf.control_dependencies([optimizer.apply_gradients(pairs, step)]):
                    return tf.constant(True)

            return tf.group(tf.cond(tf.equal(number % 3, 2), apply, lambda: tf.constant(False)))
