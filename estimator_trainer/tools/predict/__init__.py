"""Predicts every example of whole files: `python -m estimator_trainer predict --export=... --files=... --out=...`.

`predict_command.py` is the front, and `predict_plan.py` says what decides the result. `prediction.py` starts processes,
watches them, and joins what they write. `parts.py` is one such process, which feeds the model of `signature.py` with
what `examples.py` reads. Only these two import TensorFlow.
"""
