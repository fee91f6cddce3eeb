"""A model_dir in an object store: `--model_dir=s3://bucket/run`.

The run itself works in a scratch folder of this machine. The process that the user starts fetches the run from the
store into that folder, starts the trainer or the supervisor there as a child, and sends what the child writes. So a
slow or absent store delays an upload, but never a step. Locks, checkpoints and exports work as in any folder. If the
tasks of a run are on several machines, each is started in this way. It sends its own files, and it follows the files of
others that it reads: it fetches them again and again.

    names.py          what a file of a run is, by its name (pure)
    share.py          which files are whose, where tasks are on several machines (pure)
    send_order.py     what to send and to delete, and in which order (pure)
    store.py          an object store: read, write on a condition, delete, list
    store_errors.py   its three kinds of errors, and their messages
    connection.py     opens the store of a URL: packages, credentials, and whether it obeys conditions; for `doctor`,
                      which stores work on this machine
    lease.py          who trains here: one trainer at a time, and one evaluator
    scratch_state.py  what the scratch folder knows of the store
    snapshot.py       what the scratch folder holds at one moment
    fetch.py          store -> scratch folder, at the start
    mirror.py         scratch folder -> store, one pass
    follow.py         store -> scratch folder, for as long as the run lives: what other tasks send, and how an
                      evaluator sees that the chief lives
    send_speed.py     how long checkpoints take to send, and what SIGTERM can send (pure)
    sender.py         passes for as long as the run lives, and what their failures mean
    signals.py        the signals of the process that sends, and how its start can be interrupted
    child.py          the child, the end, and the exit code of the run
    stored_run.py     the start, and what its errors mean
    needs.py          of which files a tool needs the content (pure)
    copies.py         copies of a run, for tools that work on folders, with the locks of a run that lives

`config/urls.py` says which URLs there are, and names the scratch folder of one. Imports no TensorFlow.
"""
