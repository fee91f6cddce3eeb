"""Says what a folder of TensorFlow's is, without its program: `python -m estimator_trainer inspect FOLDER`.

`folder.py` finds what there is, without TensorFlow. `checkpoint.py`, `graph.py`, `saved_models.py` and `run_records.py`
read files, `variables.py` reads the index of a checkpoint. `roles.py`, `optimizers_of_run.py`, `kinds.py` and
`layers.py` work out from names and shapes what they describe; `advice.py` says what can be done with it here.
`folder_findings.py` joins them. `inspect_report.py` and `as_json.py` show the result, and `inspect_command.py` is the
front. Nothing is executed: graphs are read as protocol buffers, so that operations which TensorFlow does not know do
not matter.
"""
