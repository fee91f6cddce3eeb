"""Reads the source of Estimator programs and says what runs here: `python -m estimator_trainer assess train.py`.

`sources` finds programs and `notebooks`. `uses` yields each TensorFlow name with its line; `scopes` follows imports.
`names` knows which names TensorFlow has, `knowledge` what they mean here and in Keras 3: knowledge.ini is a table for
people to read and to extend. `findings` joins them. `report` and `page` show the result; `command` is the front.
Neither the program nor TensorFlow is imported.
"""
