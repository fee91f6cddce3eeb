"""Two hosts for real engines: two network namespaces with a link between them, and nothing else. A third one, of
somebody who has no part in the cluster, has a link to the first host.

They live in a process namespace of their own. Its first process is tied to this one: however a test run ends,
nothing that was started there outlives it.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
from multiprocessing import connection

from estimator_trainer.this_process import parent_process

ADDRESSES = ('10.203.8.1', '10.203.8.2')
FOR_STRANGERS = '10.203.9.1'  # of the first host
STRANGER = 2
_TOOLS = ('ip', 'unshare', 'nsenter')
_START_SECS = 120
_HOLDER = f"""
set -e
unshare --net sleep infinity & other=$!
unshare --net sleep infinity & stranger=$!
ip link set lo up
until ip link add eth0 type veth peer name eth0 netns $other 2>&1; do sleep .05; done
ip addr add {ADDRESSES[0]}/24 dev eth0
ip link set eth0 up
nsenter -t $other -n ip link set lo up
nsenter -t $other -n ip addr add {ADDRESSES[1]}/24 dev eth0
nsenter -t $other -n ip link set eth0 up
until ip link add eth1 type veth peer name eth0 netns $stranger 2>&1; do sleep .05; done
ip addr add {FOR_STRANGERS}/24 dev eth1
ip link set eth1 up
nsenter -t $stranger -n ip link set lo up
nsenter -t $stranger -n ip addr add 10.203.9.2/24 dev eth0
nsenter -t $stranger -n ip link set eth0 up
echo ready $other $stranger
wait
"""


def problem() -> str | None:
    """Why there can be none here."""
    if os.geteuid() != 0:
        return 'two hosts: needs root, for network namespaces'
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f'two hosts: needs {", ".join(missing)} (iproute2, util-linux)'
    tried = subprocess.run(
        ['unshare', '--net', '--pid', '--fork', '--kill-child', '--mount-proc', 'true'],
        capture_output=True,
        text=True,
        timeout=_START_SECS,
    )
    return f'two hosts: {tried.stderr.strip()}' if tried.returncode else None


class Hosts:
    """The two, as long as it is entered."""

    def __enter__(self):
        parent = os.getpid()
        self._stack = contextlib.ExitStack()
        self._holder = self._stack.enter_context(
            subprocess.Popen(
                ['unshare', '--net', '--pid', '--fork', '--kill-child', '--mount-proc', 'bash', '-c', _HOLDER],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
                preexec_fn=lambda: parent_process.tie_to_parent(parent),
            )
        )
        self._stack.callback(self._holder.kill)
        try:
            said = ''
            while not said.startswith('ready'):
                ready = connection.wait([self._holder.stdout], _START_SECS)
                said = self._holder.stdout.readline() if ready else ''
                assert said, 'the namespaces are not ready'
            children = pathlib.Path(f'/proc/{self._holder.pid}/task/{self._holder.pid}/children').read_text()
        except BaseException:
            self._stack.close()
            raise
        self._first, self._others = children.split()[0], said.split()[1:]
        return self

    def __exit__(self, *exc_info):
        self._stack.close()

    def on(self, host: int) -> list:
        """What a command is wrapped in to run on host 0 or 1, or where the STRANGER is."""
        there = ['nsenter', '-t', self._first, '-m', '-n', '-p', '--']
        return there if host == 0 else [*there, 'nsenter', '-t', self._others[host - 1], '-n', '--']

    def cut(self):
        self._link('down')

    def mend(self):
        self._link('up')

    def _link(self, state):
        subprocess.run([*self.on(1), 'ip', 'link', 'set', 'eth0', state], check=True, timeout=_START_SECS)
