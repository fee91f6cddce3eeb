"""Ports are ours alone. Loopback only; every other process is bounded."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest

from estimator_trainer.supervisor.processes import ports

ROOT = pathlib.Path(__file__).parents[3]

CLAIMER = """
import os, sys
from estimator_trainer.supervisor.processes import ports
os.getpid = lambda: 0  # all begin at the same offset
claim = ports.claim(3)
print(*claim.ports, flush=True)
sys.stdin.read()  # holds them until it is told to end, or is killed
"""


@pytest.fixture(autouse=True)
def own_locks(tmp_path, monkeypatch):
    monkeypatch.setenv('TMPDIR', str(tmp_path))
    monkeypatch.setattr('tempfile.tempdir', None)


def test_candidates_avoid_the_ephemeral_range_and_begin_at_the_offset():
    found = list(ports.candidates((32768, 60999), offset=5))
    outside = [port for port in range(1024, 65536) if not 32768 <= port <= 60999]
    assert sorted(found[: len(outside)]) == outside
    assert found[0] == 10005
    assert len(found) == len(set(found)) == 65536 - 1024


def test_a_machine_whose_ephemeral_range_is_everything_gets_ports_too():
    assert next(ports.candidates((1024, 65535), offset=0)) == 1024


def test_claims_are_disjoint_and_end_with_close():
    with ports.claim(4) as first, ports.claim(4) as second:
        assert len({*first.ports, *second.ports}) == 8
        kept = list(first.ports)
    with ports.claim(4) as third:
        assert third.ports == kept


def test_ports_to_avoid_are_avoided():
    with ports.claim(4) as first:
        taken = set(first.ports)
    with ports.claim(4, avoid=taken) as second:
        assert not taken & set(second.ports)


@pytest.mark.parametrize('host', ['0.0.0.0', '127.0.0.1', '::', '::1'])
def test_a_port_that_a_program_listens_on_is_not_taken(host):
    with ports.claim(1) as claim:
        (port,) = claim.ports
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError:
        pytest.skip(f'{host} cannot be bound here')
    with listener:
        assert not ports.is_free(port)
        with ports.claim(1) as claim:
            assert claim.ports != [port]


def test_two_supervisors_claim_disjoint_ports_and_kill_9_frees_them(monkeypatch):
    children = [
        subprocess.Popen(
            [sys.executable, '-c', CLAIMER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        first, second = (set(child.stdout.readline().split()) for child in children)
        assert len(first | second) == 6
    finally:
        for child in children:
            child.kill()
            child.communicate(timeout=10)
    monkeypatch.setattr(os, 'getpid', lambda: 0)
    with ports.claim(6) as claim:
        assert {str(port) for port in claim.ports} == first | second


def test_too_few_ports(monkeypatch):
    monkeypatch.setattr(ports, 'candidates', lambda *args, **more: range(12000, 12400))
    monkeypatch.setattr(ports, 'is_free', lambda port: port == 12345)
    with pytest.raises(ports.NoPorts, match='2 free ports are needed, 1 were found'):
        ports.claim(2)


def test_a_folder_of_somebody_else_is_refused(monkeypatch):
    folder, us = ports.lock_folder(), os.getuid()
    folder.rename(folder.with_name(f'estimator_trainer-ports-{us + 1}'))
    monkeypatch.setattr(os, 'getuid', lambda: us + 1)
    with pytest.raises(ports.NoPorts, match='another user; set TMPDIR'):
        ports.lock_folder()


def test_a_temporary_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / 'file').touch()
    monkeypatch.setattr('tempfile.tempdir', str(tmp_path / 'file'))
    with pytest.raises(ports.NoPorts, match='file/estimator_trainer-ports.*set TMPDIR'):
        ports.lock_folder()
