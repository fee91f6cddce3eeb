"""Reads the source of Estimator programs and says what runs here: `python -m estimator_trainer assess PROGRAM`.

`source_files.py` finds programs and notebooks, and the input functions in them that shard nothing. `uses.py` yields
each TensorFlow name with its line. `tf_names.py` knows which names TensorFlow has, `knowledge.py` what they mean here
and in Keras 3: knowledge.ini is a table for people to read and to extend.
`findings.py` joins them. `assess_report.py` shows the result; `assess_command.py` is the front. Neither the program nor
TensorFlow is imported.
"""
