"""How long gradients take from one task to another with --secure, beside a plain connection on the same machine.

    python benchmarks/secure_link.py [rounds]

Two tasks without TensorFlow, each in a network of its own, send each other as many bytes as there are gradients in a
small CNN (1.4 MB) and in a model of 25 million weights (100 MB), and wait for an answer of one byte. The bytes go
through both companions, and are encrypted once. The plain connection is loopback, which is faster than any network:
the ratios are those of the worst case. It also prints how long a new connection takes, and the CPU that the
companions used.
"""

import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tf_config  # noqa: E402
from benchmarks import machine  # noqa: E402
from estimator_trainer.secure import entering  # noqa: E402
from estimator_trainer.this_process import isolate  # noqa: E402

SIZES = {'1.4 MB': 1_400_000, '100 MB': 100_000_000, 'a new connection': 1}
PIECE = 1 << 20
PORT = 20000  # of the plain connection, inside the network of the first task


def serve(port):
    """Answers each message, whose length comes first, with one byte."""
    with socket.create_server(('127.0.0.1', port)) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection):
    buffer = bytearray(PIECE)
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while header := connection.recv(8):
            left = int.from_bytes(header, 'big')
            while left:
                left -= connection.recv_into(buffer, min(left, PIECE))
            connection.sendall(b'.')


def sent_secs(connection, size) -> float:
    piece, began, left = bytes(PIECE), time.perf_counter(), size
    connection.sendall(size.to_bytes(8, 'big'))
    while left:
        connection.sendall(piece[: min(left, PIECE)])
        left -= min(left, PIECE)
    assert connection.recv(1) == b'.'
    return time.perf_counter() - began


def connected(port) -> socket.socket:
    connection = socket.create_connection(('127.0.0.1', port), 60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def measured(ports, rounds) -> dict:
    """name of a size -> the seconds of each round, of the plain connection and of the secured one, which take turns."""
    found: dict = {name: {way: [] for way in ports} for name in SIZES}
    open_ones = {way: connected(port) for way, port in ports.items()}
    for connection in open_ones.values():
        sent_secs(connection, SIZES['1.4 MB'])
    for _ in range(rounds):
        for way, port in ports.items():
            for name in ('1.4 MB', '100 MB'):
                found[name][way].append(sent_secs(open_ones[way], SIZES[name]))
            began = time.perf_counter()
            with connected(port) as connection:
                sent_secs(connection, 1)
            found['a new connection'][way].append(time.perf_counter() - began)
    return found


def cpu_secs_of(children) -> float:
    ticks = 0
    for pid in children:
        fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf('SC_CLK_TCK')


def companions() -> list:
    """Of both tasks, which are on this machine."""
    mark = b'estimator_trainer.secure.companion'
    paths = pathlib.Path('/proc').glob('[0-9]*')
    return [
        path.name for path in paths if mark in _read(path / 'cmdline') and _session_mark() in _read(path / 'environ')
    ]


def _read(path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b''


def _session_mark() -> bytes:
    return f'SECURE_LINK={os.environ["SECURE_LINK"]}'.encode()


def task(name, text, key_file, rounds) -> None:
    """One of the two tasks. worker:0 measures, once worker:1 answers."""
    parsed = tf_config.parse(text)
    entering.begin(os.environ)
    if entering.state is None:
        entering.enter(parsed.cluster, parsed.task, key_file, 'benchmark', isolate.kinds_that_work())
    entering.state.serve()
    ports = entering.ports(parsed.cluster, parsed.task)
    threading.Thread(target=serve, args=(ports[name],), daemon=True).start()
    if name == 'worker:1':
        sys.stdin.read()
        os._exit(0)
    threading.Thread(target=serve, args=(PORT,), daemon=True).start()
    until_it_answers(ports['worker:1'])
    before, began = cpu_secs_of(companions()), time.perf_counter()
    found = measured({'plain': PORT, 'secured': ports['worker:1']}, int(rounds))
    cpu, secs = cpu_secs_of(companions()) - before, time.perf_counter() - began
    print(json.dumps({'found': found, 'cpu': cpu, 'secs': secs}), flush=True)
    os._exit(0)


def until_it_answers(port) -> None:
    for _ in range(600):
        try:
            with connected(port) as connection:
                sent_secs(connection, 1)
                return
        except (OSError, AssertionError):
            time.sleep(0.1)
    raise TimeoutError('the other task does not answer')


def main(rounds=10) -> None:
    for name, text in machine.describe().items():
        print(f'{name:14} {text}', flush=True)
    with socket.create_server(('', 0)) as one, socket.create_server(('', 0)) as other:
        cluster = tf_config.Cluster(worker=tuple(f'127.0.0.1:{each.getsockname()[1]}' for each in (one, other)))
    with tempfile.TemporaryDirectory() as folder:
        from estimator_trainer.secure import run_key

        key_file = os.path.join(folder, 'key')
        run_key.write(key_file)
        root = pathlib.Path(__file__).parents[1]
        environ = {**os.environ, 'PYTHONPATH': str(root), 'SECURE_LINK': folder}
        started = [
            subprocess.Popen(
                [sys.executable, __file__, each, tf_config.render(cluster, tf_config.Task('worker', number)), key_file]
                + [str(rounds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environ,
                text=True,
            )
            for number, each in enumerate(('worker:0', 'worker:1'))
        ]
        try:
            result = json.loads(started[0].stdout.readline())
        finally:
            for process in started:
                process.kill()
                process.wait()
    print(f'\n{"":18} {"plain":>10} {"secured":>10} {"ratio of medians":>18}  of a round')
    for name, ways in result['found'].items():
        plain, secured = (statistics.median(ways[way]) for way in ('plain', 'secured'))
        ratios = [b / a for a, b in zip(ways['plain'], ways['secured'])]
        print(
            f'{name:18} {plain * 1000:7.2f} ms {secured * 1000:7.2f} ms {secured / plain:18.1f}  '
            f'{min(ratios):.1f} to {max(ratios):.1f}'
        )
    moved = int(rounds) * sum(SIZES.values()) / 1e6
    cpu = result['cpu']
    print(f'\nCPU of both companions: {cpu:.2f} s for {moved:.0f} MB, {cpu / moved * 1000:.1f} ms/MB')


if __name__ == '__main__':
    if len(sys.argv) > 2:
        task(*sys.argv[1:])
    else:
        main(*map(int, sys.argv[1:]))
