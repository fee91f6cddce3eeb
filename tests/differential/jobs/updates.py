"""How a step updates: optimizers, accumulation, loss scaling, averages, clipping, learning rates."""

import tensorflow as tf

from tests.differential import data
from tests.differential.building import dense, job_of
from tests.differential.case import add, case

v1 = tf.compat.v1
legacy = tf.keras.optimizers.legacy


def hidden(x):
    return dense(dense(x, 4, 'hidden', tf.tanh))


def rows(features):
    """Whose gradients are rows of a table."""
    table = v1.get_variable('table', [12, 4])
    return dense(tf.nn.embedding_lookup(table, features['ids']))


OF_V1 = {
    'gradient_descent': lambda: v1.train.GradientDescentOptimizer(0.05),
    'momentum': lambda: v1.train.MomentumOptimizer(0.03, 0.9),
    'nesterov': lambda: v1.train.MomentumOptimizer(0.03, 0.9, use_nesterov=True),
    'adagrad': lambda: v1.train.AdagradOptimizer(0.1),
    'adadelta': lambda: v1.train.AdadeltaOptimizer(1.0),
    'adam': lambda: v1.train.AdamOptimizer(0.02),
    'ftrl': lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    'rmsprop': lambda: v1.train.RMSPropOptimizer(0.02, momentum=0.5),
    'centered_rmsprop': lambda: v1.train.RMSPropOptimizer(0.02, centered=True),
    'proximal_gradient_descent': lambda: v1.train.ProximalGradientDescentOptimizer(0.05, 0.01, 0.01),
    'proximal_adagrad': lambda: v1.train.ProximalAdagradOptimizer(0.1, l2_regularization_strength=0.01),
}
for name, make in OF_V1.items():
    add(
        __name__,
        f'optimizer_{name}',
        lambda make=make: job_of(rows, data.words, train=lambda loss, step: make().minimize(loss, step)),
        replicas=name != 'proximal_adagrad',  # TensorFlow fails
    )


@case(replicas=False)  # TensorFlow fails
def optimizer_adagrad_da():
    def train(loss, step):
        return v1.train.AdagradDAOptimizer(0.1, step).minimize(loss, step)

    return job_of(hidden, train=train)


OF_KERAS = {
    'sgd': lambda: legacy.SGD(0.03, momentum=0.8, nesterov=True),
    'adam': lambda: legacy.Adam(0.02),
    'amsgrad': lambda: legacy.Adam(0.02, amsgrad=True),
    'adamax': lambda: legacy.Adamax(0.02),
    'nadam': lambda: legacy.Nadam(0.02),
    'rmsprop': lambda: legacy.RMSprop(0.02, centered=True),
    'adagrad': lambda: legacy.Adagrad(0.1),
    'adadelta': lambda: legacy.Adadelta(1.0),
    'ftrl': lambda: legacy.Ftrl(0.1),
    'of_a_schedule': lambda: legacy.SGD(tf.keras.optimizers.schedules.ExponentialDecay(0.05, 5, 0.5)),
}
for name, make in OF_KERAS.items():

    def by_keras(loss, step, make=make):
        optimizer = make()
        optimizer.iterations = step
        return optimizer.get_updates(loss, v1.trainable_variables())[0]

    add(__name__, f'keras_optimizer_{name}', lambda by_keras=by_keras: job_of(rows, data.words, train=by_keras))


# TensorFlow cannot update variables of several replicas in a condition.
@case(counts_by_one=False, single='has moved the global step by', replicas=False, sample=True)
def accumulation():
    """An update for each four batches, which the global step counts."""

    def train(loss, step):
        optimizer = v1.train.GradientDescentOptimizer(0.05)
        pairs = optimizer.compute_gradients(loss)
        sums = [tf.Variable(tf.zeros(variable.shape), trainable=False, name='sum') for _, variable in pairs]
        count = tf.Variable(tf.constant(0), trainable=False, name='count')
        with tf.control_dependencies([total.assign_add(gradient) for total, (gradient, _) in zip(sums, pairs)]):
            number = count.assign_add(1)

        def apply():
            means = [(total.read_value() / 4.0, variable) for total, (_, variable) in zip(sums, pairs)]
            with tf.control_dependencies([optimizer.apply_gradients(means, step)]):
                with tf.control_dependencies([total.assign(tf.zeros_like(total)) for total in sums]):
                    return tf.constant(True)

        return tf.group(tf.cond(tf.equal(number % 4, 0), apply, lambda: tf.constant(False)))

    return job_of(dense, train=train)


@case(counts_by_one=False, single='has moved the global step by')
def two_optimizers():
    """As in a GAN: both count the global step."""

    def train(loss, step):
        first = v1.train.GradientDescentOptimizer(0.02).minimize(loss, step)
        with tf.control_dependencies([first]):
            return v1.train.GradientDescentOptimizer(0.01).minimize(loss, step)

    return job_of(dense, train=train)


@case()
def gan():
    """A generator and a critic with variables of their own, whose updates follow each other."""

    def net(x):
        with v1.variable_scope('generator'):
            made = dense(x, 4, 'made', tf.tanh)
        with v1.variable_scope('critic'):
            return dense(tf.concat([made, x[:, 0]], 1))

    def train(loss, step):
        of = {name: v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, name) for name in ('generator', 'critic')}
        critic = v1.train.AdamOptimizer(0.02, name='of_critic').minimize(loss, var_list=of['critic'])
        with tf.control_dependencies([critic]):
            return v1.train.AdamOptimizer(0.01, name='of_generator').minimize(-loss, step, of['generator'])

    return job_of(net, train=train)


@case(updates=True)
def several_critic_updates():
    """Three updates, unrolled."""

    def train(loss, step):
        kernel = v1.trainable_variables()[0]
        update = tf.no_op()
        for _ in range(3):
            with tf.control_dependencies([update]):
                update = kernel.assign_sub(0.01 * kernel.read_value() * loss).op
        with tf.control_dependencies([update]):
            return v1.train.GradientDescentOptimizer(0.05).minimize(loss, step)

    return job_of(dense, train=train)


def scaled(scale):
    def train(loss, step):
        optimizer = v1.train.GradientDescentOptimizer(0.05)
        return v1.mixed_precision.MixedPrecisionLossScaleOptimizer(optimizer, scale()).minimize(loss, step)

    return train


@case()
def fixed_loss_scale():
    return job_of(hidden, train=scaled(lambda: v1.mixed_precision.FixedLossScale(128.0)))


@case(counts_by_one=False, single='has moved the global step by', sample=True)
def dynamic_loss_scale():
    """The first steps overflow, and the global step does not count them."""
    return job_of(
        hidden,
        train=scaled(
            lambda: v1.mixed_precision.DynamicLossScale(initial_loss_scale=2.0**128 * 0.999, increment_period=6)
        ),
    )


@case()
def moving_averages():
    def train(loss, step):
        averages = v1.train.ExponentialMovingAverage(0.9, step)
        with tf.control_dependencies([v1.train.GradientDescentOptimizer(0.05).minimize(loss, step)]):
            return averages.apply(v1.trainable_variables())

    return job_of(hidden, train=train)


def clipped(clip):
    def train(loss, step):
        optimizer = v1.train.AdamOptimizer(0.02)
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        return optimizer.apply_gradients(zip(clip(gradients), variables), step)

    return train


@case()
def clipped_by_global_norm():
    return job_of(hidden, train=clipped(lambda gradients: tf.clip_by_global_norm(gradients, 0.3)[0]))


@case()
def clipped_by_value():
    return job_of(hidden, train=clipped(lambda gradients: [tf.clip_by_value(each, -0.1, 0.1) for each in gradients]))


RATES = {
    'exponential_decay': lambda step: v1.train.exponential_decay(0.1, step, 4, 0.5, staircase=True),
    'piecewise_constant': lambda step: v1.train.piecewise_constant(step, [5, 12], [0.1, 0.05, 0.01]),
    'cosine_decay_restarts': lambda step: v1.train.cosine_decay_restarts(0.1, step, 6),
    'warm_up': lambda step: 0.05 * tf.minimum(1.0, tf.cast(step.read_value() + 1, tf.float32) / 8.0),
}
for name, rate in RATES.items():

    def by_rate(loss, step, rate=rate):
        rate = rate(step)
        rate = rate() if callable(rate) else rate
        v1.summary.scalar('rate', rate)
        return v1.train.GradientDescentOptimizer(rate).minimize(loss, step)

    # What is read in no order to the update of the step may be that of before or of after it, in plain TensorFlow too.
    add(__name__, f'rate_{name}', lambda by_rate=by_rate: job_of(hidden, train=by_rate), events=False)


@case()
def loss_read_after_the_update():
    def train(loss, step):
        total = v1.get_variable('total', [], initializer=v1.zeros_initializer(), trainable=False)
        with tf.control_dependencies([v1.train.GradientDescentOptimizer(0.05).minimize(loss, step)]):
            kernel = v1.trainable_variables()[0].read_value()
            return total.assign_add(tf.reduce_sum(kernel)).op

    return job_of(dense, train=train)


@case(why='step_stands', counts_by_one=False, single='has moved the global step by', resumes=False, replicas=False)
def no_global_step():
    """Nobody counts; the data end."""
    job = job_of(dense, last=30, train=lambda loss, step: v1.train.GradientDescentOptimizer(0.05).minimize(loss))
    return job
