"""Compares what one program computes in two environments: `python -m estimator_trainer verify PROGRAM --from=PYTHON`.

`verify_command.py` is the front. `sides.py` says what runs where, and `interpreters.py` asks a Python what is installed
there. `program_runs.py` starts the program several times; `compat/recorder` records inside it. `traces.py` reads what
was recorded, `compare.py` says how far two runs are apart, and `judge.py` whether that is more than rounding or chance.
`first_difference.py` says in words where they part. `verify_report.py` and `verify_page.py` show the result. Only the
program imports TensorFlow.
"""
