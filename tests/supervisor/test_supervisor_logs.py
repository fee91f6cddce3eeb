"""Bytes -> lines, files and console."""

import os
import pty

import pytest

from estimator_trainer.cluster import logs


@pytest.mark.parametrize(
    'chunks, lines',
    [
        ([b'a\nb\n'], [b'a', b'b']),
        ([b'a', b'b', b'\nc\n'], [b'ab', b'c']),
        ([b'a\n\nb\n'], [b'a', b'', b'b']),
        ([b'a\r\nb\r\n'], [b'a', b'b']),
        ([b'a\r', b'\nb\n'], [b'a', b'b']),
        ([b'a\r', b'\n\nb\n'], [b'a', b'', b'b']),
        ([b'\r10%\r20%', b'\r30%\n'], [b'10%', b'20%', b'30%']),
        ([b'a\r', b'b\r', b'\n'], [b'a', b'b']),
        ([b'\xff\xfe\n'], [b'\xff\xfe']),
        ([b'123456\n'], [b'1234', b'56']),
        ([b'123456789', b'a\n'], [b'1234', b'5678', b'9a']),
    ],
)
def test_lines(chunks, lines):
    splitter = logs.Lines(limit=4)
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == lines
    assert splitter.close() == []


def test_a_partial_line_is_held_until_the_end():
    splitter = logs.Lines()
    assert splitter.feed(b'no end') == []
    assert splitter.close() == [b'no end']
    assert splitter.close() == []


def test_a_task_without_line_ends_does_not_fill_the_memory():
    splitter = logs.Lines(limit=64)
    seen = sum(len(piece) for _ in range(100) for piece in splitter.feed(b'x' * 100))
    assert 0 < 100 * 100 - seen <= 64
    assert seen + len(splitter.close()[0]) == 100 * 100


def read_all(fd):
    with open(fd, 'rb') as file:
        return file.read()


def test_a_stream_log_keeps_raw_bytes_and_prints_prefixed_lines(tmp_path):
    reader, writer = os.pipe()
    log = logs.StreamLog(tmp_path / 'log', logs.Console(writer, colour=False), b'[worker:1] ')
    log.feed(b'a\r\n\xff')
    log.feed(b'b')
    log.close()
    os.close(writer)
    assert read_all(reader) == b'[worker:1] a\n[worker:1] \xffb\n'
    assert (tmp_path / 'log').read_bytes() == b'a\r\n\xffb'


class Full:
    """A file on a disk that is full now and then."""

    name = '/logs/worker-1.err'

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
    log = logs.StreamLog(tmp_path / 'log', logs.Console(writer, colour=False), b'[worker:1] ')
    log.close()
    log._file = Full()
    for _ in range(3):
        log.feed(b'abc\n')
    log.close()
    os.close(writer)
    assert read_all(reader).decode().splitlines() == [
        '[cluster] /logs/worker-1.err is not complete: disk full', *['[worker:1] abc'] * 3]


def test_files_of_a_task(tmp_path):
    assert logs.path_of(tmp_path, 'worker:1', 'err') == tmp_path / 'worker-1.err'
    assert logs.path_of(tmp_path, 'evaluator:0', 'err', 2) == tmp_path / 'evaluator-0.2.err'


def test_colour_is_for_terminals_that_want_it(tmp_path):
    master, terminal = pty.openpty()
    with open(master, 'rb'), open(terminal, 'wb'), open(tmp_path / 'f', 'wb') as file:
        assert b'\x1b[' in logs.Console.of(terminal, {}).prefix('worker:1', 1)
        assert logs.Console.of(terminal, {'NO_COLOR': '1'}).prefix('ps:0', 1) == b'[ps:0] '
        assert logs.Console.of(file.fileno(), {}).prefix('ps:0', 1) == b'[ps:0] '


def test_a_console_that_nobody_reads_is_given_up():
    reader, writer = os.pipe()
    console = logs.Console(writer, colour=False)
    os.close(reader)
    console.say('lost')
    os.close(writer)
    console.say('lost, and no error')


def test_attempts_are_numbered_after_the_last(tmp_path):
    parent = str(tmp_path / 'model' / 'logs')
    assert [logs.new_attempt(parent).name for _ in range(2)] == ['attempt-1', 'attempt-2']
    (tmp_path / 'model' / 'logs' / 'attempt-10').mkdir()
    assert logs.new_attempt(parent).name == 'attempt-11'


def test_tail(tmp_path):
    path = tmp_path / 'log'
    path.write_bytes(b''.join(b'%d\n' % i for i in range(100)) + b'\xff')
    assert logs.tail(path, 3) == ['98', '99', '\ufffd']
    assert logs.tail(tmp_path / 'none') == []
