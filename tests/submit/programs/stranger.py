"""Somebody on the network who has no part in the cluster, and tries to get a byte to TensorFlow:

python stranger.py attack HOST PORT KEY_FILE    every way that needs no key of this attempt; prints what got through
python stranger.py graph HOST PORT              runs a harmless graph there; prints its result
"""

import contextlib
import json
import os
import socket
import ssl
import sys
import threading

CONNECTIONS, SECS = 10_000, 30
PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + b'\0\0\0\4\0\0\0\0\0'
SETTINGS = 4


def attack(place, key_file) -> dict:
    from estimator_trainer.secure import channel, run_key

    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
    other = channel.client_context(run_key.RunKey.new().certify('worker:1', run_key.name_of_attempt('other')))
    other.verify_mode = ssl.CERT_NONE
    old = channel.client_context(run_key.read(key_file).certify('worker:1', run_key.name_of_attempt('old')))
    ways = {'plain gRPC': None, 'TLS without a key': plain, "another run's key": other, "an old attempt's key": old}
    through = {name: said(place, context) for name, context in ways.items()}
    through['garbage'] = said(place, None, os.urandom(4096))
    held: list = []
    threads = [threading.Thread(target=flood, args=(place, held, number)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    through['plain gRPC, beside the others'] = said(place, None)
    for connection in held:
        connection.close()
    return {'through': sorted(name for name, answer in through.items() if is_greeting(answer)), 'held': len(held)}


def said(place, context, text=PREFACE) -> bytes:
    """What the other side sends before it closes."""
    answer = b''
    with contextlib.suppress(OSError), socket.create_connection(place, SECS) as raw:
        connection = context.wrap_socket(raw) if context else raw
        connection.settimeout(SECS)
        connection.sendall(text)
        while len(answer) < 100 and (more := connection.recv(100)):
            answer += more
    return answer


def is_greeting(answer) -> bool:
    """Whether TensorFlow's server has answered: alone, or after the byte of a companion."""
    return any(len(part) > 3 and part[3] == SETTINGS and part[:1] == b'\0' for part in (answer, answer[1:]))


def flood(place, held, number) -> None:
    """Connections that say nothing, a little, or garbage, and stay open."""
    for each in range(CONNECTIONS // 8):
        with contextlib.suppress(OSError):
            connection = socket.create_connection(place, SECS)
            held.append(connection)
            connection.sendall((b'', b'\x16\x03\x01', PREFACE, b'\0' * 64)[(each + number) % 4])


def graph(place) -> dict:
    import tensorflow as tf

    with tf.Graph().as_default():
        product = tf.constant(6) * tf.constant(7)
        options = tf.compat.v1.ConfigProto(operation_timeout_in_ms=1000 * SECS)
        try:
            with tf.compat.v1.Session(f'grpc://{place[0]}:{place[1]}', config=options) as session:
                return {'result': int(session.run(product))}
        except tf.errors.OpError as error:
            return {'error': type(error).__name__}


if __name__ == '__main__':
    verb, host, port, *rest = sys.argv[1:]
    try:
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    finally:
        print(json.dumps({'attack': attack, 'graph': graph}[verb]((host, int(port)), *rest)))
