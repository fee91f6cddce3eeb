"""Models and optimizers of the tests of --accumulate_steps, and what their steps are to compute."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import counted_replicas, optimizer_parts
from estimator_trainer.jobs import micro_batches
from estimator_trainer.training import accumulated_steps, step_graph, step_loop

v1 = tf.compat.v1

TRAIN = tf.estimator.ModeKeys.TRAIN
STEPS, BATCH, ROWS, MOST = 5, 4, 9, 40


def batches(count):
    """features, labels of so many batches; ids occur several times."""
    random = np.random.RandomState(7)
    features = {
        'x': random.normal(size=[MOST, BATCH, 3]).astype(np.float32)[:count],
        'id': random.randint(0, ROWS, [MOST, BATCH])[:count],
    }
    return features, random.normal(size=[MOST, BATCH]).astype(np.float32)[:count]


def dense(features, labels):
    first, second = (v1.glorot_uniform_initializer(seed) for seed in (1, 2))
    hidden = tf.tanh(features['x'] @ v1.get_variable('hidden', [3, 5], initializer=first))
    outputs = (hidden @ v1.get_variable('output', [5, 1], initializer=second))[:, 0]
    return tf.reduce_mean((outputs - labels) ** 2)


def sparse(features, labels):
    table = v1.get_variable('table', [ROWS, 2], initializer=v1.ones_initializer())
    return tf.reduce_mean((tf.reduce_sum(tf.nn.embedding_lookup(table, features['id']), 1) - labels) ** 2)


def with_a_loop(features, labels):
    """Reads a variable in each turn, as a recurrent layer does."""
    weights = v1.get_variable('weights', [3, 3], initializer=v1.ones_initializer())
    outputs = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.tanh(x @ weights)), (0, features['x']))[1]
    return tf.reduce_mean((outputs[:, 0] - labels) ** 2)


def with_dropout(features, labels):
    return dense({'x': tf.nn.dropout(features['x'], 0.5, seed=3)}, labels)


def with_noise(features, labels):
    """Of a generator, which takes nothing from the batch."""
    noise = tf.random.Generator.from_seed(1).normal([3])
    return dense({'x': features['x'] * noise}, labels)


def by_adam(loss, step):
    return v1.train.AdamOptimizer(0.1).minimize(loss, step)


def by_clipped_adagrad(loss, step):
    optimizer = v1.train.AdagradOptimizer(0.3)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, 0.1)
    return optimizer.apply_gradients(zip(gradients, variables), step)


def by_two_optimizers(loss, step):
    """Of TensorFlow 1 and of Keras, as in canned Estimators. The one of Keras leaves the scaling to the job."""
    first, *others = v1.trainable_variables()
    by_v1 = v1.train.AdagradOptimizer(0.3).minimize(loss, var_list=[first])
    scaled = loss / tf.distribute.get_strategy().num_replicas_in_sync
    by_keras = tf.keras.optimizers.legacy.Adam(0.1).get_updates(scaled, others) if others else []
    with tf.control_dependencies([by_v1, *by_keras]):
        return step.assign_add(1).op


def model_fn_of(loss_of, train_op_of):
    def model_fn(features, labels, mode, params, config):
        loss = loss_of(features, labels)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op_of(loss, v1.train.get_global_step()))

    return model_fn


def accumulated(model_fn, count, steps=STEPS, in_calls=False):
    """(losses, {name: value}) of steps that accumulate `count` batches."""
    with tf.Graph().as_default():
        v1.train.create_global_step()
        data = tf.data.Dataset.from_tensor_slices(batches(count * steps + count - 1))
        features, labels = v1.data.make_one_shot_iterator(micro_batches.whole_groups(data, count)).get_next()
        adds_up = accumulated_steps.Accumulation(count)
        spec = adds_up.of_model_fn(model_fn)(features, labels, TRAIN, {}, None)
        train_op = spec.train_op if isinstance(spec.train_op, tf.Operation) else spec.train_op.op
        step_graph.wait_for_batch([train_op, spec.loss.op])
        adds_up.build(train_op, None)
        losses = []
        fetches = [spec.train_op, spec.loss]
        if in_calls:
            steps_of_call = step_loop.make(spec.train_op, spec.loss, None)
            fetches = [steps_of_call.done, steps_of_call.losses]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            with pytest.raises(tf.errors.OutOfRangeError):
                while True:
                    if in_calls:
                        losses += list(session.run(fetches, {steps_of_call.most: steps})[1])
                    else:
                        losses.append(session.run(fetches)[1])
            return losses, session.run({each.op.name: each for each in v1.global_variables()})


def expected(model_fn, count, steps=STEPS):
    """The same of plain sessions: `count` runs compute gradients, one applies their sum. The losses are scaled as for
    so many replicas."""
    given = []

    def noting(original):
        def apply_gradients(optimizer, pairs, *args, **kwargs):
            pairs = [(tf.convert_to_tensor(gradient), variable) for gradient, variable in pairs]
            given.extend((gradient, tf.identity(gradient)) for gradient, _ in pairs)
            applied = [(applied, variable) for (_, applied), (_, variable) in zip(given[-len(pairs) :], pairs)]
            return original(optimizer, applied, *args, **kwargs)

        return apply_gradients

    with tf.Graph().as_default():
        v1.train.create_global_step()
        data = batches(count * steps)
        features = {'x': v1.placeholder(tf.float32, [BATCH, 3]), 'id': v1.placeholder(tf.int64, [BATCH])}
        labels = v1.placeholder(tf.float32, [BATCH])
        default = tf.distribute.get_strategy()
        with (
            optimizer_parts.apply_gradients_replaced(noting),
            counted_replicas.times(count),
            counted_replicas.scaled_by_optimizers(),
        ):
            assert default.num_replicas_in_sync == count
            spec = model_fn(features, labels, TRAIN, {}, None)
        losses = []
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for step in range(steps):
                of_step = []
                for number in range(step * count, (step + 1) * count):
                    feeds = {features[name]: data[0][name][number] for name in features} | {labels: data[1][number]}
                    of_step.append(session.run([spec.loss, [gradient for gradient, _ in given]], feeds))
                losses.append(np.mean([loss for loss, _ in of_step]))
                sums = [np.sum(values, 0) for values in zip(*(gradients for _, gradients in of_step))]
                session.run(spec.train_op, feeds | dict(zip((applied for _, applied in given), sums)))
            return losses, session.run({each.op.name: each for each in v1.global_variables()})
