"""A canned Estimator as a job: make_estimator in place of model_fn.

cd docs/examples
python -m estimator_trainer --job=canned:job --max_steps=400 --model_dir=/tmp/canned
"""

from spiral import input_fn, serving_input_fn

from estimator_trainer.jobs import Job


def make_estimator(run_config, params):
    import tensorflow as tf

    return tf.estimator.DNNClassifier(
        hidden_units=[params['hidden'], params['hidden']],
        feature_columns=[tf.feature_column.numeric_column('xy', shape=(2,))],
        optimizer=lambda: tf.keras.optimizers.legacy.Adam(params['learning_rate']),
        config=run_config,
    )


job = Job(
    make_estimator=make_estimator,
    input_fn=input_fn,
    serving_input_fn=serving_input_fn,
    params={'hidden': 32, 'learning_rate': 0.01},
    best_metric='accuracy',
    best_mode='max',
    num_train_examples=1000,
)
