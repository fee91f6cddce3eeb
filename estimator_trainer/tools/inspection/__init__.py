"""Says what a folder of TensorFlow's is, without its program: `python -m estimator_trainer inspect FOLDER`.

`folder.py` finds what there is, without TensorFlow. `saved_files.py` and `graph.py` read files, and `variables.py` the
index of a checkpoint. `roles.py` and `kinds.py` work out from names and shapes what they describe. `folder_findings.py`
joins them, and `advice.py` says what can be done with it here. `inspect_report.py` shows the result, and
`inspect_command.py` is the front. Nothing is executed: graphs are read as protocol buffers, so that operations which
TensorFlow does not know do not matter.
"""
