"""Compares what one program computes in two environments: `python -m estimator_trainer verify train.py --from=PYTHON`.

`command` is the front. `interpreters` asks a Python what is installed there. `runs` starts the program several times;
`compat/recorder` records inside it. `traces` reads what was recorded, `compare` says how far two runs are apart, and
`judge` whether that is more than rounding or chance. `first_difference` says in words where they part. `report` and
`page` show the result. Only the program imports TensorFlow.
"""
