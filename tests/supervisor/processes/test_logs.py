"""Bytes -> lines, files and console."""

import os

from estimator_trainer.supervisor.processes import logs
from estimator_trainer.supervisor.processes.console import Console


def read_all(fd):
    with open(fd, 'rb') as file:
        return file.read()


def test_a_stream_log_keeps_raw_bytes_and_prints_prefixed_lines(tmp_path):
    reader, writer = os.pipe()
    with Console(writer, colour=False) as console:
        log = logs.StreamLog(tmp_path / 'log', console, b'[worker:1] ')
        log.feed(b'a\r\n\xff')
        log.feed(b'b')
        log.close()
    os.close(writer)
    assert read_all(reader) == b'[worker:1] a\n[worker:1] \xffb\n'
    assert (tmp_path / 'log').read_bytes() == b'a\r\n\xffb'


class Full:
    """A file on a disk that is full now and then."""

    dropped = False

    def __init__(self):
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
        log = logs.StreamLog(tmp_path / 'log', console, b'[worker:1] ')
        log.close()
        log._file = Full()
        for _ in range(3):
            log.feed(b'abc\n')
        log.close()
    os.close(writer)
    assert read_all(reader).decode().splitlines() == [
        f'[cluster] {tmp_path}/log is not complete: disk full',
        *['[worker:1] abc'] * 3,
    ]


def test_files_of_a_task(tmp_path):
    assert logs.path_of(tmp_path, 'worker:1', 'err') == tmp_path / 'worker-1.err'
    assert logs.path_of(tmp_path, 'evaluator:0', 'err', 2) == tmp_path / 'evaluator-0.2.err'


def test_tail(tmp_path):
    path = tmp_path / 'log'
    path.write_bytes(b''.join(b'%d\n' % i for i in range(100)) + b'\xff')
    assert logs.tail(path, 3) == ['98', '99', '\ufffd']
    assert logs.tail(tmp_path / 'none') == []


def test_the_tail_goes_over_both_halves(tmp_path):
    path = tmp_path / 'log'
    path.write_bytes(b'3\n4\n')
    logs.older_of(path).write_bytes(b'1\n2\n')
    assert logs.tail(path, 3) == ['2', '3', '4']
    assert logs.tail(path, 2) == ['3', '4']


def rotated(tmp_path, *chunks, mb=1):
    """The content of the older and the newer half after writing `chunks`, and whether any was dropped."""
    file = logs.RotatedFile(tmp_path / 'log', mb)
    for chunk in chunks:
        assert file.write(chunk) == len(chunk)
    file.close()
    older = logs.older_of(tmp_path / 'log')
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
    logs.older_of(tmp_path / 'log').symlink_to(theirs)
    file = logs.RotatedFile(tmp_path / 'log', 1)
    for _ in range(3):
        file.write(b'x' * HALF)
    assert file.dropped and theirs.read_bytes() == b'theirs'
    assert logs.older_of(tmp_path / 'log').is_symlink()
    assert (tmp_path / 'log').stat().st_size == HALF


def test_a_folder_that_is_gone_costs_the_log_and_no_more(tmp_path):
    (tmp_path / 'folder').mkdir()
    file = logs.RotatedFile(tmp_path / 'folder' / 'log', 1)
    (tmp_path / 'folder' / 'log').unlink()
    (tmp_path / 'folder').rmdir()
    for _ in range(9):
        file.write(b'x' * HALF)
    assert os.fstat(file._file.fileno()).st_size <= HALF


class Listening:
    """A console that remembers what the supervisor says."""

    def __init__(self):
        self.said = []

    def write(self, data):
        pass

    def say(self, text):
        self.said.append(text)


def test_what_is_dropped_is_said_once(tmp_path):
    console = Listening()
    log = logs.StreamLog(tmp_path / 'log', console, b'', logs.LogBounds(mb=1))
    for _ in range(2):
        log.feed(b'x' * HALF)
    assert console.said == []
    for _ in range(7):
        log.feed(b'x' * HALF)
    log.close()
    assert console.said == [f'{tmp_path}/log has reached --max_log_mb=1: from now on its oldest lines are dropped']
