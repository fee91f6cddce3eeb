"""Lets nobody but the tasks of one run reach TensorFlow's ports, where these tasks are on several machines.

TensorFlow's server has no authentication, listens on every interface and runs any graph that it is sent. So with
`--secure` a task runs in a network of its own that has only loopback. Its companion, a process outside of that network,
listens on the port that the cluster gives the task. Companions speak TLS 1.3 with each other, and each shows a
certificate that the key of the run has signed.

    TensorFlow -> 127.0.0.1:10003 -> its companion == TLS 1.3 ==> companion of task 3 -> 127.0.0.1:10003 -> TensorFlow
    (network of the task)            (the machine's network)                             (network of task 3)

    run_key.py     the key of a run, and the certificates that it signs
    channel.py     the TLS of both sides
    refusals.py    why a task does not get through
    membership.py  who a task is for the others
    door.py        incoming connections until it is known who they are
    pump.py        bytes between two sockets
    companion.py   the process outside
    decision.py    whether a task is secured, and why not
    entering.py    how a task gets into its network
"""
