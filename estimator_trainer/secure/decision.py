"""Decides whether a task is secured. Pure."""

import dataclasses
import ipaddress
from collections.abc import Iterable

from estimator_trainer.errors import UsageError

MODES = ('auto', 'off', 'required')
EXPOSED = (
    "TensorFlow's ports listen on every interface, without authentication: whoever reaches them runs code in the job; "
    'see docs/security.md'
)


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known of a task and of its machine.

    Attributes:
        hosts: of all tasks that open a port.
        is_isolated: there is no network here but loopback.
        is_command: this process is the command `train`, and not another program that calls the trainer.
        has_cryptography: the extra `secure` is installed.
        needs_network: the flag for which the task needs a network, with its value; '': none.
        shares_folder: the model_dir is one folder of all tasks.
        has_key_file: --secure_key_file is given, or the engine has given a key.
        uses_nccl: workers exchange data between GPUs.
        no_namespace: why the kernel gives no network namespace; '': it does.
        no_key: why there can be no file that only this user can read; '': there can.
    """

    hosts: tuple[str, ...]
    is_isolated: bool = False
    is_command: bool = True
    has_cryptography: bool = True
    needs_network: str = ''
    shares_folder: bool = True
    has_key_file: bool = False
    uses_nccl: bool = False
    no_namespace: str = ''
    no_key: str = ''


@dataclasses.dataclass(frozen=True)
class Decision:
    """`note`: a line for the user; '': there is nothing to say."""

    is_on: bool
    note: str = ''


ON = (
    "secured: only tasks of this run reach TensorFlow's port, by TLS; this task has no other network (--secure=off for "
    'jobs that need one)'
)

ISOLATED = (
    '--secure=required: the cluster is isolated, and nobody outside reaches its ports: there is nothing to secure'
)


def on_several_machines(hosts: Iterable[str]) -> bool:
    """Whether tasks on these hosts may be on several machines. All names and addresses of loopback are one host."""
    return len({'localhost' if _is_loopback(host) else host.lower() for host in hosts}) > 1


def decide(mode: str, facts: Facts) -> Decision:
    """Decides by --secure.

    Raises:
        UsageError: it is required, and cannot be.
    """
    if not facts.hosts or facts.is_isolated:  # it opens no port, or nobody reaches it
        return Decision(False, ISOLATED if facts.hosts and mode == 'required' else '')
    several = on_several_machines(facts.hosts)
    if mode == 'off':
        return Decision(False, f'not secured (--secure=off): {EXPOSED}' if several else '')
    if mode == 'auto' and not several:
        return Decision(False)
    problem = _problem(facts)
    if not problem:
        return Decision(True, ON)
    why, cure = problem
    if mode == 'required':
        raise UsageError(f'--secure=required: {why}; {cure}.')
    return Decision(False, f'not secured ({why}): {EXPOSED}')


def _problem(facts: Facts) -> tuple[str, str] | None:
    """Why a task cannot be secured, and what to do; None: it can."""
    if facts.needs_network:
        return (
            f'{facts.needs_network} needs a network, and a secured task has none but to the other tasks',
            'leave that out, or give --secure=off',
        )
    if facts.uses_nccl:
        return (
            'workers with GPUs exchange gradients by NCCL, on ports that --secure does not cover',
            'give --secure=off, behind a firewall, or use parameter servers',
        )
    if not facts.has_cryptography:
        return ('the package cryptography is not installed', "pip install 'estimator-trainer[secure]' on each machine")
    if not facts.shares_folder and not facts.has_key_file:
        return (
            "the model_dir is in a store, where the run's key must not be",
            'give --secure_key_file=FILE, with the same file on each machine',
        )
    if not facts.is_command:
        return ('the trainer was started by another program', 'start it with python -m estimator_trainer')
    if facts.no_namespace:
        return (
            f'no network namespace can be had here ({facts.no_namespace})',
            'docs/security.md lists causes and cures; --secure=auto goes on without one, with a port that others may '
            'reach',
        )
    if facts.no_key:
        return (facts.no_key, 'give --secure_key_file=FILE on a file system that keeps modes')
    return None


def _is_loopback(host: str) -> bool:
    if host.lower() in ('localhost', 'ip6-localhost', 'ip6-loopback'):
        return True
    try:
        return ipaddress.ip_address(host.strip('[]')).is_loopback
    except ValueError:
        return False
