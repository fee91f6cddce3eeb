"""`sweep`: many runs of one job with other flags and params, chosen by Optuna; one table, and the best of them.

`space` reads --param_space, `targets` finds what its names mean, `plan` remembers what the sweep is, `study` keeps the
trials and chooses the next, `evaluations` judges a trial by its eval/metrics.jsonl, `child` is the process of a trial,
`run` joins them, and `report` says how it went. Only `study` imports Optuna, and nothing imports TensorFlow.
"""
