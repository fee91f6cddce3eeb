"""Tries of isolation, each in a process of its own, as root and as an ordinary user."""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 120
NOBODY = 65534

BEGINNING = (
    f"""
import signal
signal.alarm({BOUND_SECS})
"""
    + """
import ctypes, errno, fcntl, json, os, socket, subprocess, sys, threading
from estimator_trainer.supervisor.policy import task_commands
from estimator_trainer.this_process import isolate
from estimator_trainer.this_process import parent_process

PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_SET_DUMPABLE = 1, 2, 4
libc = ctypes.CDLL(None, use_errno=True)
user = int(sys.argv[1])
if user != os.geteuid():
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # exec would do it; then /proc/self is ours again

def namespaces():
    return [os.readlink(f'/proc/self/ns/{kind}') for kind in ('user', 'net')]

def interfaces():
    return sorted(name for _, name in socket.if_nameindex() if isolate._flags(name) & 1)  # up

def answers(host='127.0.0.1'):
    # Is there a network in which we reach ourselves?
    with socket.socket() as server, socket.socket() as client:
        server.bind((host, 0))
        server.listen()
        client.settimeout(5)
        return client.connect_ex(server.getsockname()) == 0

def say(**what):
    print(json.dumps(what), flush=True)

before = dict(namespaces=namespaces(), interfaces=interfaces())
"""
)

# The kernel itself refuses: a user namespace in which no network namespace may be made.
NO_NAMESPACES = """
uid, gid = os.geteuid(), os.getegid()
assert libc.unshare(0x10000000) == 0, os.strerror(ctypes.get_errno())
for path, text in (('/proc/self/setgroups', 'deny'), ('/proc/self/uid_map', f'0 {uid} 1'),
                   ('/proc/self/gid_map', f'0 {gid} 1'),
                   ('/proc/sys/user/max_net_namespaces', '0')):
    with open(path, 'w') as file:
        file.write(text)
before = dict(namespaces=namespaces(), interfaces=interfaces())
"""

# What enter() says, and whether this process is as it was.
TRY = """
try:
    found = isolate.enter(sys.argv[2])
    outcome = dict(isolated=found.isolated, note=found.note)
except isolate.CannotIsolate as error:
    outcome = dict(error=str(error))
try:
    os.waitpid(-1, os.WNOHANG)
    left = True
except ChildProcessError:
    left = False
say(**outcome, left=left, answers=answers(),
    same=before == dict(namespaces=namespaces(), interfaces=interfaces()))
"""


@dataclasses.dataclass(frozen=True)
class User:
    uid: int
    folder: pathlib.Path

    @contextlib.contextmanager
    def start(self, script, mode='on'):
        """A process of this user that runs `script` in a folder of theirs."""
        popen = subprocess.Popen(
            [sys.executable, '-c', BEGINNING + script, str(self.uid), mode],
            cwd=self.folder,
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with popen:
            try:
                yield popen
            finally:
                popen.kill()

    def run(self, script, mode='on'):
        """What it said."""
        with self.start(script, mode) as popen:
            out, err = popen.communicate(timeout=BOUND_SECS + 5)
        assert popen.returncode == 0, err
        return json.loads(out)
