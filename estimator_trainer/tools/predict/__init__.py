"""Predicts every example of whole files: `python -m estimator_trainer predict --export=... --files=... --out=...`.

`exports` finds the SavedModel. `plan` says what decides the result, and `parts` keeps the rows: each part of them is a
file until all are there. `worker` is one process that predicts parts, with the `signature` of the model; `children`
starts such processes, and watches them. `command` is the front. Only `worker` and `signature` import TensorFlow.
"""
