"""The key of a run: who may read its file, and what it signs."""

import os
import pathlib
import stat
import subprocess
import sys

import pytest
from cryptography import x509

from estimator_trainer import exit_codes
from estimator_trainer.secure import run_key


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / 'key'
    run_key.write(str(path))
    return path


def test_only_its_user_can_read_the_file_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        run_key.write(str(tmp_path / 'key'))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / 'key').stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ['key']


def test_what_is_read_is_what_was_written(key_file):
    assert run_key.read(str(key_file)).pem() == key_file.read_bytes()


def test_two_runs_have_two_keys(tmp_path, key_file):
    run_key.write(str(tmp_path / 'other'))
    assert key_file.read_bytes() != (tmp_path / 'other').read_bytes()


@pytest.mark.parametrize('mode', [0o640, 0o604, 0o644, 0o620])
def test_a_file_that_others_may_use_is_refused(key_file, mode):
    key_file.chmod(mode)
    with pytest.raises(run_key.KeyRefused, match=rf'key: others may .*mode {mode:04o}\); make it 0600'):
        run_key.read(str(key_file))


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can give files away')
def test_a_secret_of_kubernetes_is_mounted_as_links_to_a_file_of_root(tmp_path, key_file, monkeypatch):
    key_file.chmod(0o440)
    (tmp_path / '..data').symlink_to('.')
    (tmp_path / 'secret').symlink_to('..data/key')
    monkeypatch.setattr(os, 'geteuid', lambda: 1000)
    assert run_key.read(str(tmp_path / 'secret')).pem() == key_file.read_bytes()
    key_file.chmod(0o444)
    with pytest.raises(run_key.KeyRefused, match=r'others may read .*mode 0444\)'):
        run_key.read(str(tmp_path / 'secret'))


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can give links away')
def test_the_link_of_another_user_is_refused(tmp_path, key_file):
    (tmp_path / 'link').symlink_to(key_file)
    os.chown(tmp_path / 'link', 65534, 65534, follow_symlinks=False)
    with pytest.raises(run_key.KeyRefused, match='belongs to another user'):
        run_key.read(str(tmp_path / 'link'))


@pytest.mark.parametrize('make', [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused_at_once(tmp_path, make):
    make(tmp_path / 'key')
    with pytest.raises(run_key.KeyRefused):
        run_key.read(str(tmp_path / 'key'))


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can give files away')
def test_the_file_of_another_user_is_refused(key_file):
    os.chown(key_file, 65534, 65534)
    with pytest.raises(run_key.KeyRefused, match='belongs to another user'):
        run_key.read(str(key_file))


def test_a_file_that_is_not_there_is_told_apart(tmp_path):
    with pytest.raises(FileNotFoundError):
        run_key.read(str(tmp_path / 'none'))


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(run_key.KeyRefused, match='none/key: the key of the run cannot be written'):
        run_key.write(str(tmp_path / 'none' / 'key'))


def test_other_texts_are_no_keys(key_file, tmp_path):
    run_key.write(str(tmp_path / 'other'))
    pem, other = key_file.read_bytes(), (tmp_path / 'other').read_bytes()
    end = b'-----END PRIVATE KEY-----\n'
    mixed = pem.partition(end)[0] + end + other.partition(end)[2]
    for text in (b'', b'hello', pem[: len(pem) // 2], os.urandom(500), mixed):
        key_file.write_bytes(text)
        with pytest.raises(run_key.KeyRefused, match='is no key of a run'):
            run_key.read(str(key_file))


def test_a_certificate_names_the_task_and_the_attempt(key_file):
    key = run_key.read(str(key_file))
    made = key.certify('worker:1', run_key.name_of_attempt('slurm-7-0'))
    certificate, authority = (x509.load_pem_x509_certificate(pem) for pem in (made.certificate, made.authority))
    attempt = run_key.name_of_attempt('slurm-7-0')
    assert certificate.subject.rfc4514_string() == f'OU={attempt},CN=worker:1'
    certificate.verify_directly_issued_by(authority)


def test_each_certificate_has_a_pair_of_keys_of_its_own_and_not_that_of_the_run(key_file):
    key = run_key.read(str(key_file))
    private = {key.certify('worker:1', 'a').private_key for _ in range(2)}
    assert len(private) == 2
    assert not any(each in key_file.read_bytes() for each in private)


def test_names_of_attempts_are_short_and_differ():
    names = {run_key.name_of_attempt(text) for text in ('', 'a', 'b', 'x' * 500)}
    assert len(names) == 4
    assert max(map(len, names)) <= 64  # what a certificate has room for


def make_by_command(path):
    command = [sys.executable, '-m', 'estimator_trainer.secure.run_key', path]
    root = pathlib.Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)


def test_the_command_makes_a_key_and_replaces_none(tmp_path):
    path = str(tmp_path / 'key')
    assert make_by_command(path).returncode == exit_codes.OK
    made = run_key.read(path).pem()
    again = make_by_command(path)
    assert again.returncode == exit_codes.USAGE
    assert 'is there already' in again.stderr
    assert run_key.read(path).pem() == made
