"""The CNN or the small DNN with Keras's fit alone.

    python -m benchmarks.peers.keras_fit [--model=cnn|small_dnn] [--steps=N] [--steps_per_execution=N] [--keras=2|3]

prints {"steps_per_sec": …}.
"""

import importlib
import importlib.util

from benchmarks.peers import common


def main():
    parser = common.flags(__doc__)
    parser.add_argument('--model', choices=common.KERAS_MODELS, default='cnn')
    parser.add_argument('--steps_per_execution', type=int, default=1)
    parser.add_argument('--keras', type=int, choices=(2, 3), default=3, help='the version; 2 is tf-keras')
    args = common.parse(parser)
    package = {2: 'tf_keras', 3: 'keras'}[args.keras]
    if importlib.util.find_spec(package) is None:
        common.tell(skipped=f'{package} is not installed')
        return

    keras = importlib.import_module(package)
    if not keras.__version__.startswith(f'{args.keras}.'):
        common.tell(skipped=f'{package} is Keras {keras.__version__} here')
        return
    clock = common.Clock(args.warm_up)

    class Steps(keras.callbacks.Callback):
        _supports_tf_logs = True  # Keras 2 makes NumPy numbers of the losses of each step otherwise

        def on_train_batch_end(self, batch, logs=None):
            clock.at(batch + 1)

    model = common.KERAS_MODELS[args.model](keras)
    model.compile(
        optimizer=keras.optimizers.SGD(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=args.steps_per_execution,
    )
    batches = common.batches_of_keras(args.model)
    model.fit(batches, steps_per_epoch=args.steps, epochs=1, verbose=0, callbacks=[Steps()])
    clock.report()


if __name__ == '__main__':
    main()
