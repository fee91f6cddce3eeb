"""The models of the peers as jobs: --job=benchmarks.jobs:cnn, :small_dnn, :wide_and_deep, :big and :padded. Only the
trainer has a :large_cnn and a :sized."""

import dataclasses

from benchmarks import data
from benchmarks.peers import checkpoint_script, estimator_script
from estimator_trainer.jobs import Job, image_classifier, mnist


def input_fn_of(name):
    """`input_fn` of one of `data.SETS`. With --param=constant=true each batch is the same one."""

    def input_fn(mode, params, input_context):
        import tensorflow as tf

        from estimator_trainer.data import array_batches

        features, labels = data.SETS[name]()
        if params['constant'] and mode == 'train':
            batch = tf.nest.map_structure(lambda array: array[: params['batch_size']], (features, labels))
            return tf.data.Dataset.from_tensors(batch).repeat()
        return array_batches(features, labels, mode, params, input_context)

    return input_fn


def dense(params, number, units, activation=None):
    """A layer whose first weights are those of the run's seed and its number."""
    import tensorflow as tf

    kernel = tf.keras.initializers.GlorotUniform(seed=params['seed'] + number)
    return tf.keras.layers.Dense(units, activation, kernel_initializer=kernel, name=f'dense{number}')


def small_model(params):
    import tensorflow as tf

    x = tf.keras.Input([32], name='x')
    hidden = dense(params, 2, 16, 'relu')(dense(params, 1, 16, 'relu')(x))
    logits = dense(params, 3, data.CLASSES)(hidden)
    return tf.keras.Model({'x': x}, logits, name='small_dnn')


def large_model(params):
    """A CNN whose convolutions take nearly all of the time of a step."""
    import tensorflow as tf

    x = y = tf.keras.Input([28, 28, 1], name='image', dtype=tf.uint8)
    y = tf.keras.layers.Rescaling(1 / 255)(y)
    for number, channels in enumerate((64, 64, 128, 128)):
        kernel = tf.keras.initializers.GlorotUniform(seed=params['seed'] + number)
        strides = 1 + number % 2
        y = tf.keras.layers.Conv2D(channels, 3, strides, 'same', activation='relu', kernel_initializer=kernel)(y)
    logits = tf.keras.layers.Dense(data.CLASSES)(tf.keras.layers.Flatten()(y))
    return tf.keras.Model({'image': x}, logits, name='large_cnn')


def sized_model(params):
    """Dense layers of 1,000 units, 4 MB each, whose gradients are `mb` megabytes."""
    import tensorflow as tf

    x = y = tf.keras.Input([32], name='x')
    layers = 1 + params['mb'] // 4
    for number in range(layers):
        y = dense(params, number, 1000, 'relu')(y)
    return tf.keras.Model({'x': x}, dense(params, layers, data.CLASSES)(y), name='sized')


def make_wide_and_deep(run_config, params):
    import tensorflow as tf

    fc = tf.feature_column
    numbers = [fc.numeric_column(name) for name in data.NUMBERS]
    words = [fc.categorical_column_with_hash_bucket(name, 1000) for name in data.WORDS]
    return tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=words,
        dnn_feature_columns=[*numbers, *(fc.embedding_column(word, 8) for word in words)],
        dnn_hidden_units=[64, 32],
        config=run_config,
    )


def padded_model_fn(features, labels, mode, params):
    """The script's CNN, whose checkpoints have `mb` megabytes more."""
    import tensorflow as tf

    v1 = tf.compat.v1
    noise = v1.random_uniform_initializer(seed=1)
    v1.get_variable('padding', [params['mb'] * 250_000], initializer=noise, trainable=False)
    return estimator_script.model_fn(tf, features, labels, mode)


_PARAMS = {'constant': False}
cnn = dataclasses.replace(
    mnist.job, input_fn=input_fn_of('cnn'), params={**mnist.job.params, **_PARAMS}, same_eval_data=True
)
large_cnn = Job(
    make_model=large_model,
    parts=image_classifier.PARTS,
    input_fn=input_fn_of('cnn'),
    params={**image_classifier.PARAMS, **_PARAMS},
)
small_dnn = Job(
    make_model=small_model,
    parts=image_classifier.PARTS,
    input_fn=input_fn_of('small_dnn'),
    params={**image_classifier.PARAMS, **_PARAMS},
)
sized = Job(
    make_model=sized_model,
    parts=image_classifier.PARTS,
    input_fn=input_fn_of('small_dnn'),
    params={**image_classifier.PARAMS, **_PARAMS, 'mb': 4},
)
wide_and_deep = Job(make_estimator=make_wide_and_deep, input_fn=input_fn_of('wide_and_deep'), params=_PARAMS)
big = Job(
    model_fn=lambda features, labels, mode, params: checkpoint_script.model_fn(features, labels, mode),
    input_fn=input_fn_of('big'),
    params=_PARAMS,
)
padded = Job(model_fn=padded_model_fn, input_fn=input_fn_of('padded'), params={**_PARAMS, 'mb': 100})
