"""The CNN with a plain loop: a tf.function and a gradient tape, one step a call.

    python -m benchmarks.peers.custom_loop [--steps=N]

prints {"steps_per_sec": …}.
"""

from benchmarks import data
from benchmarks.peers import common


def main():
    args = common.parse(common.flags(__doc__))

    import tensorflow as tf

    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            tf.keras.Input([28, 28, 1]),
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 3, activation='relu'),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation='relu'),
            layers.Dense(data.CLASSES),
        ]
    )
    optimizer = tf.keras.optimizers.SGD(0.01)

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    features, labels = data.digits()
    batches = tf.data.Dataset.from_tensor_slices((features['image'], labels))
    batches = batches.shuffle(10_000).repeat().batch(data.BATCHES['cnn']).prefetch(tf.data.AUTOTUNE)
    clock = common.Clock(args.warm_up)
    for number, (images, of_images) in enumerate(batches.take(args.steps), 1):
        loss = step(images, of_images)
        if number % 100 == 0:
            loss.numpy()  # what is shown of a training
        clock.at(number)
    clock.report()


if __name__ == '__main__':
    main()
