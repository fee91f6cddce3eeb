"""What a run writes into its folders, and how: locks, and files of which this process is the only writer.

`run_folder` reads them, for all others. Imports nothing else of this package but `compat`, `errors`, `exit_codes` and
`this_process`. Only `checkpoints`, `v1_checkpoints`, `foreign_checkpoints`, `checkpoint_state`, `checkpoint_errors` and
`summaries` import TensorFlow.
"""
