"""From a canned Estimator (linear, DNN, both together, baseline) to a Keras 3 model that computes the same.

`recover` takes columns, head and optimizers from the Estimator itself, `columns` and `describe` turn them into plain
JSON, `record` lets the Estimator predict, evaluate and take some more steps. A process of its own, in which Keras is
Keras 3 and which knows neither this package nor `tf.estimator`, builds the model from that (`in_keras_3/`), loads the
checkpoint's numbers into it, and compares. `run` joins them.
"""
