"""A Slurm of one's own: a controller and nodes on two namespaced hosts, everything in one folder."""

import os
import pathlib
import subprocess

from tests.chaos import faults
from tests.submit.hosts import ADDRESSES, Hosts

UP_SECS = 120
SPARE = 'spare'  # a partition beside that of the two nodes
CALL_SECS = 120
_CONF = """
ClusterName=test
SlurmctldHost=localhost({first})
SlurmUser=root
SlurmdUser=root
SlurmctldPort=26817
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=5
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=20
KillWait=30
NodeName=n1 NodeHostname=localhost NodeAddr={first} Port=26821 CPUs=2 RealMemory=8000
NodeName=n2 NodeHostname=localhost NodeAddr={second} Port=26821 CPUs=2 RealMemory=8000
NodeName=n3 NodeHostname=localhost NodeAddr={second} Port=26822 CPUs=1 RealMemory=8000
PartitionName=main Nodes=n[1-2] Default=YES
PartitionName={spare} Nodes=n3
"""
ENDED = {'COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT', 'NODE_FAIL', 'OUT_OF_MEMORY', 'BOOT_FAIL', 'DEADLINE'}


class Slurm:
    """The cluster, as long as it is entered. Its folder holds logs and jobs."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.hosts = Hosts()

    def __enter__(self):
        self.hosts.__enter__()
        try:
            (self.folder / 'state').mkdir(parents=True)
            conf = self.folder / 'slurm.conf'
            first, second = ADDRESSES
            conf.write_text(_CONF.format(folder=self.folder, first=first, second=second, spare=SPARE))
            (self.folder / 'cgroup.conf').write_text('CgroupPlugin=cgroup/v1\n')
            self.environ = {**os.environ, 'SLURM_CONF': str(conf)}
            for name in ('TF_CONFIG', 'PYTHONSTARTUP'):
                self.environ.pop(name, None)
            self._daemon(0, 'slurmctld', '-i', '-D')
            for host, node in ((0, 'n1'), (1, 'n2'), (1, 'n3')):
                self._daemon(host, 'slurmd', '-D', '-N', node)
            faults.until(self._is_up, 'the nodes are not idle', UP_SECS)
        except BaseException:
            print(self.logs())
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info):
        self.hosts.__exit__()

    def _daemon(self, host, *command):
        with open(self.folder / f'{command[0]}.{command[-1]}.output', 'wb') as log:
            subprocess.Popen(
                [*self.hosts.on(host), *command],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _is_up(self):
        states = self.call('sinfo', '-N', '-h', '-o', '%N:%T').stdout
        return states.split() == ['n1:idle', 'n2:idle', 'n3:idle']

    def logs(self) -> str:
        found = [*self.folder.glob('*.log'), *self.folder.glob('*.output')]
        return '\n'.join(f'== {path.name}\n{path.read_text(errors="replace")[-3000:]}' for path in found)

    def call(self, *command) -> subprocess.CompletedProcess:
        """Runs a command on the first host, with its output as text."""
        return subprocess.run(
            [*self.hosts.on(0), *map(str, command)],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CALL_SECS,
        )

    def job(self, number) -> dict:
        """What `scontrol show job` says of it."""
        text = self.call('scontrol', 'show', 'job', '-o', number).stdout
        return dict(word.split('=', 1) for word in text.split() if '=' in word)

    def has_ended(self, number) -> bool:
        return self.job(number).get('JobState') in ENDED
