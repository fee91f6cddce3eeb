"""Bytes between two sockets: all of them, in both directions, whatever the ends do."""

import random
import socket
import threading

import pytest

from estimator_trainer.secure import pump


@pytest.fixture
def ends():
    """The outer ends of two connections whose inner ends are pumped, and the thread that does it."""
    one, inner_one = socket.socketpair()
    other, inner_other = socket.socketpair()
    thread = threading.Thread(target=pump.carry, args=(inner_one, inner_other))
    thread.start()
    for end in (one, other):
        end.settimeout(60)
    yield one, other, thread
    one.close()
    other.close()
    thread.join(60)
    assert not thread.is_alive()


def received(end, size):
    data = b''
    while len(data) < size and (more := end.recv(1 << 20)):
        data += more
    return data


def test_both_directions_at_once(ends):
    one, other, _ = ends
    there, back = (random.Random(seed).randbytes(3_000_000) for seed in (1, 2))
    senders = [threading.Thread(target=end.sendall, args=(data,)) for end, data in ((one, there), (other, back))]
    results = {}
    readers = [
        threading.Thread(target=lambda name, end: results.update({name: received(end, 3_000_000)}), args=args)
        for args in (('there', other), ('back', one))
    ]
    for thread in (*senders, *readers):
        thread.start()
    for thread in (*senders, *readers):
        thread.join(120)
    assert results == {'there': there, 'back': back}


def test_what_was_sent_before_the_end_arrives(ends):
    one, other, thread = ends
    sent = threading.Thread(target=lambda: (one.sendall(b'x' * 2_000_000), one.close()))
    sent.start()
    assert len(received(other, 3_000_000)) == 2_000_000
    sent.join(60)
    thread.join(60)
    assert not thread.is_alive()


def test_an_end_that_is_gone_ends_the_other(ends):
    one, other, thread = ends
    other.close()
    one.sendall(b'x')
    assert one.recv(1) == b''
    thread.join(60)
    assert not thread.is_alive()


def test_a_slow_reader_holds_up_the_sender_and_uses_no_memory(ends):
    one, other, _ = ends
    one.setblocking(False)
    sent = 0
    try:
        while sent < 100_000_000:
            sent += one.send(b'x' * 65536)
            threading.Event().wait(0.001)
    except BlockingIOError:
        pass
    assert sent < 100_000_000
    one.settimeout(60)
    one.shutdown(socket.SHUT_WR)
    assert len(received(other, sent)) == sent
