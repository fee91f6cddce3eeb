"""From an Estimator's checkpoint to Keras's files, and back: `python -m estimator_trainer migrate`.

`names` pairs variables and says which are left over, `weights` reads and writes both kinds of
checkpoints, `archive` makes the `.keras` file in a process without legacy Keras.
"""
