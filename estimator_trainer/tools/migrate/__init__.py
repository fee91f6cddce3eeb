"""From an Estimator's checkpoint to Keras's files, and back: `python -m estimator_trainer migrate`.

`variable_names.py` pairs variables and says which are left over, `weights.py` reads and writes both kinds of
checkpoints, and `to_keras.py` writes the results, and makes the `.keras` file in a process without legacy Keras.
"""
