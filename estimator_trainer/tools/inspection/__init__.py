"""Says what a folder of TensorFlow's is, without its program: `python -m estimator_trainer inspect FOLDER`.

`folder` finds what there is, without TensorFlow. `checkpoint`, `graph`, `exports` and `records` read files. `roles`,
`optimizers`, `kinds`, `heads` and `layers` work out from names and shapes what they describe; `advice` says what can be
done with it here. `findings` joins them. `sentence` and `report` show the result; `command` is the front. Nothing is
executed: graphs are read as protocol buffers, so that operations which TensorFlow does not know do not matter.
"""
