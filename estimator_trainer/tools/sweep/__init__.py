"""`sweep`: many runs of one job with other flags and params, chosen by Optuna; one table, and the best of them.

`space.py` reads --param_space, `targets.py` finds what its names mean, `sweep_plan.py` remembers what the sweep is,
`study.py` keeps the trials and chooses the next, `evaluations.py` judges a trial by its eval/metrics.jsonl,
`trial_process.py` is the process of a trial, `trial_runner.py` joins them, and `sweep_report.py` says how it went. Only
`study.py` imports Optuna, and nothing imports TensorFlow.
"""
