"""Two tasks that nobody looks after, on one host or on two whose link is cut."""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import time

from estimator_trainer import exit_codes
from estimator_trainer.supervisor.processes import ports
from tests.chaos import faults
from tests.chaos.case import Row
from tests.chaos.faults import TRAINING
from tests.chaos.stage import Stage

BOTH = ('worker:0', 'worker:1')
DEFAULT_BOUND_SECS = 40  # --lost_peer_secs=30, and what it takes to end


def tf_config(task: str, hosts) -> str:
    """Of one of the workers at `hosts`, 'address:port' each."""
    index = int(task.rpartition(':')[2])
    return json.dumps({'cluster': {'worker': list(hosts)}, 'task': {'type': 'worker', 'index': index}})


@contextlib.contextmanager
def two_addresses():
    with ports.claim(2) as claimed:
        yield [f'127.0.0.1:{port}' for port in claimed.ports]


def start_pair(stage, hosts, *flags, before=((), ())) -> list:
    """Both workers, as two people would start them by hand."""
    return [
        stage.trainer(*flags, before=wrapper, TF_CONFIG=tf_config(task, hosts)) for task, wrapper in zip(BOTH, before)
    ]


class Link:
    """Two network namespaces with a link between them. Needs root, and `ip`."""

    _numbers = itertools.count()

    def __init__(self):
        number = next(self._numbers)
        self.names = [f'chaos{os.getpid()}-{number}{side}' for side in 'ab']
        self.hosts = ['10.203.7.1', '10.203.7.2']

    @staticmethod
    def problem() -> str | None:
        """Why there can be none here."""
        if os.geteuid() != 0:
            return 'needs root'
        if shutil.which('ip') is None:
            return 'needs ip (iproute2)'
        name = f'chaos{os.getpid()}t'
        tried = subprocess.run(['ip', 'netns', 'add', name], capture_output=True, text=True)
        if tried.returncode:
            return tried.stderr.strip()
        subprocess.run(['ip', 'netns', 'del', name], check=True)
        return None

    def __enter__(self):
        a, b = self.names
        for name in self.names:
            self._ip('netns', 'add', name)
            self._ip('-n', name, 'link', 'set', 'lo', 'up')
        self._ip('-n', a, 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', b)
        for name, host in zip(self.names, self.hosts):
            self._ip('-n', name, 'addr', 'add', f'{host}/24', 'dev', 'eth0')
            self._ip('-n', name, 'link', 'set', 'eth0', 'up')
        return self

    def __exit__(self, *exc_info):
        for name in self.names:
            subprocess.run(['ip', 'netns', 'del', name], check=False)

    def cut(self):
        self._ip('-n', self.names[1], 'link', 'set', 'eth0', 'down')

    def mend(self):
        self._ip('-n', self.names[1], 'link', 'set', 'eth0', 'up')

    @staticmethod
    def _ip(*args):
        subprocess.run(['ip', *args], check=True)


def link_cut(secs: float | None):
    """The link between two hosts is down for `secs`; None: for good."""

    def play(folder, undisturbed) -> Row:
        problem = Link.problem()
        if problem:
            return Row(happened=f'skipped: {problem}')
        row = Row()
        with Stage(folder) as stage, Link() as link:
            hosts = [f'{host}:2222' for host in link.hosts]
            programs = start_pair(
                stage, hosts, '--param=slow_ms=100', before=[('ip', 'netns', 'exec', name) for name in link.names]
            )
            faults.until(lambda: any(e['step'] >= 30 for e in stage.scene.events(TRAINING)), 'no step 30')
            cut_at = time.time()
            link.cut()
            if secs is not None:
                time.sleep(secs)  # it is the fault
                link.mend()
            codes = [program.wait() for program in programs]
            row.happened = ', '.join(f'{task} exit {code}' for task, code in zip(BOTH, codes))
            row.said = [program.last_line for code, program in zip(codes, programs) if code]
            output = '\n'.join(program.output for program in programs)
            if secs is None:
                row.detected = max(program.ended_at for program in programs) - cut_at
                row.expect(codes == [exit_codes.LOST_PEER] * 2, output)
                row.expect(row.detected < DEFAULT_BOUND_SECS, f'it took {row.detected:.1f} s')
                row.judge(stage, finished=False)
            else:
                row.expect(codes == [0, 0], output)
                row.judge(stage)
        return row

    return play
