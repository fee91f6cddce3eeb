"""`sweep`: many runs of one job with other flags and params, chosen by Optuna; one table, and the best of them.

`targets.py` reads --param_space and finds what its names mean, `study.py` says what the sweep is, keeps the trials and
chooses the next, `trial_runner.py` runs them, and `sweep_report.py` says how it went. Only `study.py` imports Optuna,
and none but the process that loads the job imports TensorFlow.
"""
