"""The output of tasks -> files of bounded size, and lines for the console. And the kernel's counter of kills."""

import os

from estimator_trainer.run_dir import log_folders
from estimator_trainer.supervisor.processes import local_launcher
from estimator_trainer.this_process.console import Console
from tests.supervisor import fakes


def read_all(fd):
    with open(fd, 'rb') as file:
        return file.read()


def test_a_stream_log_keeps_raw_bytes_and_prints_prefixed_lines(tmp_path):
    reader, writer = os.pipe()
    with Console(writer, colour=False) as console:
        file = local_launcher.RotatedFile(tmp_path / 'log', 0)
        log = local_launcher.StreamLog(file, console, b'[worker:1] ')
        log.feed(b'a\r\n\xff')
        log.feed(b'b')
        log.close()
    os.close(writer)
    assert read_all(reader) == b'[worker:1] a\n[worker:1] \xffb\n'
    assert (tmp_path / 'log').read_bytes() == b'a\r\n\xffb'


class Full:
    """A file on a disk that is full now and then."""

    dropped = False

    def __init__(self, path):
        self.path = path
        self.answers = [2, OSError(28, 'No space left on device'), 1]

    def write(self, data):
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def close(self):
        raise OSError(28, 'No space left on device')


def test_a_full_disk_does_not_end_the_run(tmp_path):
    reader, writer = os.pipe()
    with Console(writer, colour=False) as console:
        log = local_launcher.StreamLog(Full(tmp_path / 'log'), console, b'[worker:1] ')
        for _ in range(3):
            log.feed(b'abc\n')
        log.close()
    os.close(writer)
    assert read_all(reader).decode().splitlines() == [
        f'[cluster] {tmp_path}/log is not complete: disk full',
        *['[worker:1] abc'] * 3,
    ]


def rotated(tmp_path, *chunks, mb=1):
    """The content of the older and the newer half after writing `chunks`, and whether any was dropped."""
    file = local_launcher.RotatedFile(tmp_path / 'log', mb)
    for chunk in chunks:
        assert file.write(chunk) == len(chunk)
    file.close()
    older = log_folders.older_of(tmp_path / 'log')
    return older.read_bytes() if older.exists() else None, (tmp_path / 'log').read_bytes(), file.dropped


HALF = 1 << 19


def test_a_log_within_its_bound_is_one_file(tmp_path):
    assert rotated(tmp_path, b'x' * HALF) == (None, b'x' * HALF, False)


def test_without_a_bound_it_is_one_file(tmp_path):
    assert rotated(tmp_path, b'x' * 5 * HALF, mb=0) == (None, b'x' * 5 * HALF, False)


def test_the_newest_output_is_always_there(tmp_path):
    lines = [b'%07d\n' % number for number in range(500_000)]
    older, newer, dropped = rotated(tmp_path, *(b''.join(lines[at : at + 9999]) for at in range(0, 500_000, 9999)))
    assert dropped
    assert len(older) <= HALF and len(newer) <= HALF
    kept = (older + newer).splitlines(keepends=True)
    assert kept == lines[-len(kept) :]  # whole lines, none missing between
    assert len(older) > HALF - 9


def test_one_piece_may_be_larger_than_both_halves(tmp_path):
    older, newer, dropped = rotated(tmp_path, b'a\n', b'x' * 3 * HALF + b'\nlast\n')
    assert (older, newer, dropped) == (b'x' * HALF, b'\nlast\n', True)


def test_a_file_of_somebody_elses_is_not_replaced(tmp_path):
    theirs = tmp_path / 'theirs'
    theirs.write_bytes(b'theirs')
    log_folders.older_of(tmp_path / 'log').symlink_to(theirs)
    file = local_launcher.RotatedFile(tmp_path / 'log', 1)
    for _ in range(3):
        file.write(b'x' * HALF)
    assert file.dropped and theirs.read_bytes() == b'theirs'
    assert log_folders.older_of(tmp_path / 'log').is_symlink()
    assert (tmp_path / 'log').stat().st_size == HALF


def test_a_folder_that_is_gone_costs_the_log_and_no_more(tmp_path):
    (tmp_path / 'folder').mkdir()
    file = local_launcher.RotatedFile(tmp_path / 'folder' / 'log', 1)
    (tmp_path / 'folder' / 'log').unlink()
    (tmp_path / 'folder').rmdir()
    for _ in range(9):
        file.write(b'x' * HALF)
    assert os.fstat(file._file.fileno()).st_size <= HALF


def test_what_is_dropped_is_said_once(tmp_path):
    console = fakes.Console()
    log = local_launcher.StreamLog(local_launcher.RotatedFile(tmp_path / 'log', 1), console, b'')
    for _ in range(2):
        log.feed(b'x' * HALF)
    assert console.said == []
    for _ in range(7):
        log.feed(b'x' * HALF)
    log.close()
    assert console.said == [f'{tmp_path}/log has reached --max_log_mb=1: from now on its oldest lines are dropped']


def test_the_kernels_counter(tmp_path):
    groups, root = tmp_path / 'cgroup', tmp_path / 'fs'
    (root / 'pods' / 'us').mkdir(parents=True)
    assert local_launcher.memory_kills(groups, root) is None
    (root / 'memory.events').write_text('low 0\noom 7\noom_kill 5\noom_group_kill 1\n')
    assert local_launcher.memory_kills(groups, root) == 5  # a container sees its own group as the root
    groups.write_text('4:memory:/elsewhere\n0::/pods/us\n')
    assert local_launcher.memory_kills(groups, root) == 5
    (root / 'pods' / 'us' / 'memory.events').write_text('oom_kill 2\n')
    assert local_launcher.memory_kills(groups, root) == 2
    (root / 'pods' / 'us' / 'memory.events').write_text('something else\n')
    assert local_launcher.memory_kills(groups, root) == 5
