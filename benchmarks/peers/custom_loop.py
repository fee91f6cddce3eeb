"""The CNN or the small DNN with a plain loop: a tf.function and a gradient tape, one step a call.

    python -m benchmarks.peers.custom_loop [--model=cnn|small_dnn] [--steps=N]

prints {"steps_per_sec": …}.
"""

from benchmarks.peers import common


def main():
    parser = common.flags(__doc__)
    parser.add_argument('--model', choices=common.KERAS_MODELS, default='cnn')
    args = common.parse(parser)

    import tensorflow as tf

    model = common.KERAS_MODELS[args.model](tf.keras)
    optimizer = tf.keras.optimizers.SGD(0.01)

    @tf.function
    def step(examples, labels):
        with tf.GradientTape() as tape:
            logits = model(examples, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    batches = common.batches_of_keras(args.model)
    clock = common.Clock(args.warm_up)
    for number, (examples, labels) in enumerate(batches.take(args.steps), 1):
        loss = step(examples, labels)
        if number % 100 == 0:
            loss.numpy()  # what is shown of a training
        clock.at(number)
    clock.report()


if __name__ == '__main__':
    main()
