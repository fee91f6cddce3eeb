"""The script of the Estimator tutorial: a CNN for digits, on tf.estimator alone.

    python -m benchmarks.peers.estimator_script [--workers=2 [--pinned]] [--replicas=2] [--evaluations=N]

prints {"steps_per_sec": …}. With --evaluations it evaluates after each step, and prints the seconds from one
evaluation to the next one and the resident memory.
"""

import statistics
import time

import numpy as np

from benchmarks import data
from benchmarks.peers import common


def main():
    parser = common.flags(__doc__)
    parser.add_argument('--workers', type=int, default=1, help='synchronous workers, started through TF_CONFIG')
    parser.add_argument('--replicas', type=int, default=1, help='replicas of MirroredStrategy, on logical CPUs')
    parser.add_argument('--pinned', action='store_true', help='a core for each worker, and few threads')
    parser.add_argument('--constant', action='store_true', help='each batch is the same one')
    parser.add_argument('--evaluations', type=int, default=0, help='how often to evaluate, after one step each')
    args = common.parse(parser)
    number = common.become_cluster(['worker'] * args.workers, args.pinned)

    import tensorflow as tf

    if not hasattr(tf, 'estimator'):  # TensorFlow 2.16 and later
        import estimator_trainer.compat  # noqa: F401
    run_config = tf.estimator.RunConfig(
        model_dir='model',
        train_distribute=strategy(tf, args),
        session_config=threads(tf) if args.pinned else None,
        save_checkpoints_steps=1 if args.evaluations else None,
        save_checkpoints_secs=None if args.evaluations else 600,
    )
    estimator = tf.estimator.Estimator(
        lambda features, labels, mode: model_fn(tf, features, labels, mode), config=run_config
    )
    evaluated = Evaluated(args.evaluations)
    clock = common.Clock(args.warm_up)

    def batches(input_context=None):
        return train_input_fn(tf, input_context, args.constant)

    if args.workers == 1 and not args.evaluations:
        estimator.train(batches, hooks=[common.step_hook(clock)], steps=args.steps)
        clock.report()
        return
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(batches, args.evaluations or args.steps, hooks=[common.step_hook(clock)]),
        tf.estimator.EvalSpec(
            lambda: eval_input_fn(tf), steps=None, exporters=evaluated.exporter(tf), start_delay_secs=0, throttle_secs=0
        ),
    )
    if args.evaluations:
        evaluated.report()
    elif number == 0:
        clock.report()


def train_input_fn(tf, input_context, constant):
    dataset = tf.data.Dataset.from_tensor_slices(data.digits())
    if constant:
        return dataset.batch(data.BATCHES['cnn']).take(1).cache().repeat()
    if input_context:
        dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.shuffle(10_000).repeat().batch(data.BATCHES['cnn'])


def eval_input_fn(tf):
    return tf.data.Dataset.from_tensor_slices(data.digits()).batch(data.BATCHES['cnn'])


def model_fn(tf, features, labels, mode):
    model = common.KERAS_MODELS['cnn'](tf.keras)
    logits = model(tf.cast(features['image'], tf.float32), training=mode == tf.estimator.ModeKeys.TRAIN)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)
    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, -1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={'accuracy': accuracy})
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.01)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def strategy(tf, args):
    if args.pinned:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(2)
    if args.workers > 1:
        return tf.distribute.experimental.MultiWorkerMirroredStrategy()
    if args.replicas == 1:
        return None
    (cpu,) = tf.config.list_physical_devices('CPU')
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * args.replicas)
    # The default for logical CPUs may hang on a machine with two cores.
    reduction = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy([f'/cpu:{i}' for i in range(args.replicas)], cross_device_ops=reduction)


def threads(tf):
    return tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)


class Evaluated:
    """Notes the time and the memory after each evaluation: upstream calls exporters then."""

    def __init__(self, count):
        self._times, self._memory = [], []

    def exporter(self, tf):
        def export(exporter, *args, **kwargs):
            self._times.append(time.perf_counter())
            self._memory.append(common.resident_mib())

        return type('Note', (tf.estimator.Exporter,), {'name': 'note', 'export': export})()

    def report(self):
        secs = statistics.median(np.diff(self._times)) if len(self._times) > 1 else float('nan')
        few = self._memory[min(5, len(self._memory)) - 1]
        common.tell(evaluation_secs=secs, mib_after_5=few, mib_at_end=self._memory[-1], evaluations=len(self._times))


if __name__ == '__main__':
    main()
