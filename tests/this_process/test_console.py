"""The console, and readers who stall: nothing waits for them."""

import errno
import os
import pty
import threading

import pytest

from estimator_trainer.this_process import console as consoles
from estimator_trainer.this_process.console import Console

BOUND_SECS = 120  # for what takes milliseconds
LINE = b'[worker:0] ' + b'x' * 88 + b'\n'


@pytest.fixture
def pipe():
    """(reader, writer); both may have been closed by the test."""
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        try:
            os.close(fd)
        except OSError:
            pass


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(consoles, 'PATIENCE_SECS', 0.05)
    monkeypatch.setattr(consoles, 'MOST_BYTES', 1 << 18)


def read_all(reader, writer):
    os.close(writer)
    with open(os.dup(reader), 'rb') as file:
        return file.read()


def test_all_that_is_written_arrives_in_order(pipe):
    reader, writer = pipe
    with Console(writer, colour=False) as console:
        for number in range(100):
            console.write(b'%d\n' % number)
            console.say(f'after {number}')
    expected = ''.join(f'{number}\n[cluster] after {number}\n' for number in range(100))
    assert read_all(reader, writer).decode() == expected


def stall(console, lines=20_000):
    """Writes more than a reader who does not read can take."""
    for _ in range(lines // 100):
        console.write(LINE * 100)


def test_nobody_waits_for_a_pipe_that_is_never_read(pipe, impatient):
    console = Console(pipe[1], colour=False)
    stall(console)
    console.say('and this')
    console.close(0.1)
    console.write(b'late\n')  # is dropped
    assert console._held <= consoles.MOST_BYTES + consoles.MORE_FOR_OURS


def test_a_reader_who_comes_back_is_told_what_is_missing(pipe, impatient):
    reader, writer = pipe
    console = Console(writer, colour=False)
    console.kept_in = 'the log files in /logs'
    stall(console)
    console.say('an order')  # the supervisor's own lines are in no file
    console.say('another')
    found = []
    thread = threading.Thread(target=lambda: found.append(read_all_of(reader)))
    thread.start()
    console.close(BOUND_SECS)
    os.close(writer)
    thread.join(BOUND_SECS)
    lines = found[0].decode().splitlines()
    whole = lines.count(LINE.decode().rstrip())
    said = [line for line in lines if line.startswith('[cluster]')]
    assert said[:2] == ['[cluster] an order', '[cluster] another']
    assert said[2:] == [
        f'[cluster] {20_000 - whole} lines are left out here, because this console was not read in '
        'time; they are in the log files in /logs'
    ]
    assert len(lines) == whole + 3 and whole > 1000


def read_all_of(reader):
    with open(os.dup(reader), 'rb') as file:
        return file.read()


def test_a_reader_who_is_slow_loses_nothing(pipe, monkeypatch):
    """As long as it takes something, tasks wait for it."""
    monkeypatch.setattr(consoles, 'PATIENCE_SECS', BOUND_SECS)
    monkeypatch.setattr(consoles, 'MOST_BYTES', 1 << 17)
    reader, writer = pipe
    found = []

    def read():
        while data := os.read(reader, 4096):
            found.append(data)

    thread = threading.Thread(target=read)
    thread.start()
    with Console(writer, colour=False) as console:
        stall(console)
        console.close(BOUND_SECS)
    os.close(writer)
    thread.join(BOUND_SECS)
    assert b''.join(found) == LINE * 20_000


def test_a_terminal_under_ctrl_s(impatient):
    """Nothing is lost on its way through a stopped terminal that goes on."""
    master, terminal = pty.openpty()
    with open(master, 'rb+', buffering=0), open(terminal, 'wb', buffering=0) as shown:
        os.write(master, b'\x13')  # Ctrl-S
        console = Console.for_stream(shown, {'NO_COLOR': '1'})
        for number in range(3):
            console.say(f'line {number}')
        os.write(master, b'\x11')  # Ctrl-Q
        seen = b''
        while b'line 2' not in seen:
            seen += os.read(master, 4096)
        assert seen.count(b'line') == 3
        os.write(master, b'\x13')
        stall(console, 5000)
        console.close(0.1)
        os.write(master, b'\x11')


def test_a_console_that_nobody_reads_is_given_up(pipe):
    reader, writer = pipe
    os.close(reader)
    console = Console(writer, colour=False)
    console.say('lost')
    console.close()
    console.say('lost, and no error')
    console.close(3600)  # does not wait for who is not there


def test_a_full_disk_that_has_room_again(pipe, monkeypatch):
    reader, writer = pipe
    write, full = os.write, [OSError(errno.ENOSPC, 'No space left on device')] * 2

    def write_unless_full(fd, data):
        if fd == writer and full:
            raise full.pop()
        return write(fd, data)

    monkeypatch.setattr(os, 'write', write_unless_full)
    console = Console(writer, colour=False)
    for number in range(4):
        console.say(f'line {number}')
        with console._changed:
            assert console._changed.wait_for(lambda: not console._held, BOUND_SECS)
    console.close(BOUND_SECS)
    assert read_all(reader, writer).decode().splitlines() == [
        '[cluster] line 2',
        '[cluster] 2 lines are left out here, because this console could not be written; they are in the log files',
        '[cluster] line 3',
    ]


def test_a_descriptor_that_does_not_block_is_waited_for(pipe):
    reader, writer = pipe
    os.set_blocking(writer, False)
    console = Console(writer, colour=False)
    console.write(LINE * 2000)  # more than a pipe holds
    found = b''
    while len(found) < len(LINE) * 2000:
        found += os.read(reader, 1 << 16)
    console.close(BOUND_SECS)
    assert found == LINE * 2000
    assert not os.get_blocking(writer)  # it is not ours to change


def test_colour_is_for_terminals_that_want_it(tmp_path):
    master, terminal = pty.openpty()
    with open(master, 'rb'), open(terminal, 'wb') as shown, open(tmp_path / 'f', 'wb') as file:
        assert b'\x1b[' in Console.for_stream(shown, {}).prefix('worker:1', 1)
        assert Console.for_stream(shown, {'NO_COLOR': '1'}).prefix('ps:0', 1) == b'[ps:0] '
        assert Console.for_stream(file, {}).prefix('ps:0', 1) == b'[ps:0] '


def test_a_stream_that_was_closed_before_is_none():
    with Console.for_stream(None, {}) as console:
        console.say('lost')


def test_no_thread_is_there_before_the_first_line(pipe):
    before = set(threading.enumerate())
    console = Console(pipe[1], colour=False)
    assert set(threading.enumerate()) <= before
    console.say('x')
    console.close()
    assert set(threading.enumerate()) <= before
