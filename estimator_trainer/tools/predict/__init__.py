"""Predicts every example of whole files: `python -m estimator_trainer predict --export=... --files=... --out=...`.

`chosen_export.py` finds the SavedModel. `predict_plan.py` says what decides the result, and `parts.py` keeps the rows:
each part of them is a file until all are there. `worker.py` is one process that predicts parts, with the `signature.py`
of the model; `children.py` starts such processes, and watches them. `predict_command.py` is the front. Only `worker.py`
and `signature.py` import TensorFlow.
"""
