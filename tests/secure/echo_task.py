"""A task without TensorFlow: it goes into a network of its own, serves whoever connects there by sending everything
back, and does what its stdin says, a line of JSON for each order: {"call": NAME, "text": …}, {"alive": 1}, {"deaf": 1},
{"fork": 1}: a child that holds what the task has open, but not its stderr.

    python echo_task.py NAME TF_CONFIG KEY_FILE ATTEMPT USER PARENT
"""

import ctypes
import json
import os
import socket
import sys
import threading
import time

import tf_config
from estimator_trainer.secure import entering, refusals
from estimator_trainer.this_process import isolate, parent_process

NAME, TF_CONFIG, KEY_FILE, ATTEMPT, USER, PARENT = sys.argv[1:]
PR_SET_DUMPABLE = 4
PARSED = tf_config.parse(TF_CONFIG)


def serve(listener):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=echo, args=(connection,), daemon=True).start()


def echo(connection):
    with connection:
        while data := connection.recv(1 << 16):
            say(got=len(data))
            connection.sendall(data)


def call(name, text):
    """What the other task answers; the name of the refusal if its companion does not let us in."""
    data = text.encode()
    with socket.create_connection(('127.0.0.1', PORTS[name]), 60) as connection:
        connection.settimeout(60)
        connection.sendall(data)
        answer = b''
        try:
            while len(answer) < max(len(data), 1) and (more := connection.recv(1 << 16)):
                answer += more
        except ConnectionResetError:
            pass
    refusal = refusals.refusal_in(answer)
    return refusal.name if refusal else answer.decode(errors='replace')


def say(**what):
    sys.stdout.write(json.dumps(what) + '\n')  # at once: threads say something too
    sys.stdout.flush()


def main():
    if int(USER) != os.geteuid():
        os.setgroups([])
        os.setgid(int(USER))
        os.setuid(int(USER))
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # exec would do it; then /proc/self is ours again
    parent_process.tie_to_parent(int(PARENT))
    try:
        entering.enter(PARSED.cluster, PARSED.task, KEY_FILE, ATTEMPT, isolate.kinds_that_work())
    except (entering.CannotSecure, OSError) as error:
        say(problem=str(error), code=getattr(error, 'exit_code', None))
        sys.exit(1)


entering.begin(os.environ)
if entering.state is None:
    main()
PORTS = entering.ports(PARSED.cluster, PARSED.task)
listener = socket.create_server(('0.0.0.0', PORTS[NAME])) if NAME in PORTS else None
if listener:
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
try:
    entering.state.serve()
except entering.CannotSecure as error:
    say(problem=str(error), code=error.exit_code)
    sys.exit(1)
say(problem='', net=os.readlink('/proc/self/ns/net'), argv=sys.argv)
for line in sys.stdin:
    order = json.loads(line)
    if 'call' in order:
        say(answer=call(order['call'], order['text']))
    elif 'alive' in order:
        say(ended=entering.state.companion_has_ended())
    elif 'deaf' in order:
        listener.shutdown(socket.SHUT_RDWR)  # a thread waits in accept()
        listener.close()
        say(deaf=True)
    elif 'fork' in order:
        child = os.fork()
        if not child:
            os.close(2)
            time.sleep(600)
            os._exit(0)
        say(forked=child)
    else:
        break
os._exit(0)
