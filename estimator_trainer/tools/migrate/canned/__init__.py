"""From a canned Estimator (linear, DNN, both together, baseline) to a Keras 3 model that computes the same.

`recover.py` takes columns, head and optimizers from the Estimator itself, `columns.py` and `describe.py` turn them into
plain JSON, `record.py` lets the Estimator predict, evaluate and take some more steps. A process of its own, in which
Keras is Keras 3 and which knows neither this package nor `tf.estimator`, builds the model from that (`in_keras_3/`),
loads the checkpoint's numbers into it, and compares. `conversion.py` joins them.
"""
