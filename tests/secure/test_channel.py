"""The TLS of two companions: who gets through, and what a refused one is told."""

import socket
import ssl
import sys
import threading

import pytest

from estimator_trainer.secure import channel, refusals, run_key
from estimator_trainer.secure.channel import Refused
from estimator_trainer.secure.refusals import Refusal
from tests.secure import peers

KEY, OTHER_KEY = run_key.RunKey.new(), run_key.RunKey.new()


@pytest.fixture
def served():
    with peers.ServedDoor(KEY.certify('worker:0', peers.ATTEMPT)) as served:
        yield served


def refusal(*args, **kwargs):
    with pytest.raises(Refused) as refused:
        peers.call(*args, **kwargs)
    return refused.value.refusal


def test_a_task_of_the_run_gets_through_and_both_know_who_the_other_is(served):
    with peers.call(served.address, KEY.certify('worker:1', peers.ATTEMPT)) as connection:
        connection.sendall(b'hello')
        assert connection.recv(5) == b'hello'
        assert connection.version() == 'TLSv1.3'
    assert served.admitted.get(timeout=60) == ('worker:1', peers.ATTEMPT)
    assert served.lines == []


def test_no_session_is_resumed_so_that_each_connection_proves_who_it_is(served):
    context = channel.client_context(KEY.certify('worker:1', peers.ATTEMPT))
    with socket.create_connection(served.address, 60) as raw, context.wrap_socket(raw) as connection:
        assert connection.recv(1) == b'+'
        session = connection.session
        assert session is None or not session.has_ticket


def test_another_runs_key_is_refused_by_both_sides(served):
    assert refusal(served.address, OTHER_KEY.certify('worker:1', peers.ATTEMPT)) is Refusal.OTHER_KEY
    own = channel.client_context(KEY.certify('worker:1', peers.ATTEMPT))
    other = channel.client_context(OTHER_KEY.certify('worker:1', peers.ATTEMPT))
    other.load_verify_locations(cadata=KEY.certify('worker:0', 'a').authority.decode())  # it only pretends
    for context, admitted in ((own, True), (other, False)):
        with socket.create_connection(served.address, 60) as raw, context.wrap_socket(raw) as connection:
            if admitted:
                assert connection.recv(1) == b'+'
            else:
                with pytest.raises(ssl.SSLError) as error:
                    connection.recv(1)
                assert channel.refusal_of(error.value) is Refusal.OTHER_KEY
    assert any("another run's key" in line for line in served.lines), served.lines


def test_tls_without_a_certificate_is_refused(served):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(served.address, 60) as raw, context.wrap_socket(raw) as connection:
        with pytest.raises(ssl.SSLError, match='(?i)certificate.required'):
            connection.recv(1)
    assert served.admitted.empty()
    assert served.lines == ['refused 127.0.0.1: no certificate']


def test_an_older_tls_is_refused(served):
    context = channel.client_context(KEY.certify('worker:1', peers.ATTEMPT))
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with socket.create_connection(served.address, 60) as raw, pytest.raises(ssl.SSLError):
        context.wrap_socket(raw)
    assert served.admitted.empty()


def test_another_task_that_answers_is_no_peer(served):
    credentials = KEY.certify('worker:1', peers.ATTEMPT)
    assert refusal(served.address, credentials, task='worker:2') is Refusal.OTHER_TASK


def test_the_one_who_calls_looks_at_the_attempt(served):
    credentials = KEY.certify('worker:1', peers.ATTEMPT)
    assert refusal(served.address, credentials, attempt='another') is Refusal.OTHER_ATTEMPT


def test_a_port_that_is_closed_is_told_apart():
    with socket.create_server(('127.0.0.1', 0)) as listener:
        address = listener.getsockname()
    with pytest.raises(ConnectionRefusedError) as error:
        socket.create_connection(address, 60)
    assert channel.refusal_of(error.value) is Refusal.NOBODY_LISTENS


@pytest.mark.parametrize(
    'greeting, expected',
    [
        (b'\0\0\x18\4\0\0\0\0\0' + bytes(24), Refusal.NO_TLS),  # SETTINGS of a gRPC server
        (b'HTTP/1.1 400 Bad Request\r\n\r\n', Refusal.NO_TLS),
        (b'', Refusal.SILENT),
    ],
)
def test_a_server_without_tls_is_told_apart(greeting, expected):
    with socket.create_server(('127.0.0.1', 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(greeting)

        thread = threading.Thread(target=serve)
        thread.start()
        assert refusal(listener.getsockname(), KEY.certify('worker:1', peers.ATTEMPT)) is expected
        thread.join()


@pytest.mark.parametrize('each', list(Refusal))
def test_a_refusal_goes_through_a_frame_of_http2(each):
    frame = each.frame()
    assert frame[3] == 7  # GOAWAY
    assert len(frame) == refusals.FRAME_BYTES
    assert refusals.refusal_in(frame) is each


def test_other_frames_hold_no_refusal():
    settings = b'\0\0\x08\4\0\0\0\0\0' + bytes(8)
    unknown = Refusal.SILENT.frame()[:-4] + b'\0\0\0\0'
    assert [refusals.refusal_in(frame) for frame in (b'', settings, unknown, unknown[:9])] == [None] * 4


def test_the_private_key_of_a_certificate_is_in_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened = []
    sys.addaudithook(lambda event, args: opened.append(args[0]) if event == 'open' else None)
    channel.client_context(KEY.certify('worker:1', peers.ATTEMPT))
    assert list(tmp_path.iterdir()) == []
    assert not [path for path in opened if isinstance(path, str) and path.startswith('/tmp')]
