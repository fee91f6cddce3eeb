"""Trains a job with every loop, and compares the weights of each step: `python -m estimator_trainer parity --job=...`.

`run_list.py` says which runs there are, and `parity_runs.py` starts them and reads what they wrote (`run_weights.py`
the weights of each step). `run_differences.py` is the arithmetic, and `parity_report.py` and `parity_page.py` show the
result.
"""
