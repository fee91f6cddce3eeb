"""Processes, each of which plays many jobs. One that ends or hangs fails the job that it played."""

import faulthandler
import multiprocessing
import os
import queue
import signal
import sys
import threading

_JOB_SECS = 900  # a job takes some seconds on a quiet machine
_spawn = multiprocessing.get_context('spawn')


def play(names, settings, replicas, processes):
    """Yields (name, {setting: (verdict, in detail)}) as they are done."""
    left, done = queue.Queue(), queue.Queue()
    for name in names:
        left.put(name)
    threads = [
        threading.Thread(target=_feed, args=(left, done, settings, replicas), daemon=True) for _ in range(processes)
    ]
    for thread in threads:
        thread.start()
    for _ in names:
        yield done.get()


def _feed(left, done, settings, replicas):
    process = None
    while True:
        try:
            name = left.get_nowait()
        except queue.Empty:
            break
        if process is None:
            ours, theirs = _spawn.Pipe()
            process = _spawn.Process(target=_child, args=(theirs, replicas), daemon=True)
            process.start()
            theirs.close()
        ours.send((name, settings))
        try:
            if not ours.poll(_JOB_SECS):
                raise TimeoutError(f'not done after {_JOB_SECS} s')
            found = ours.recv()
        except (EOFError, OSError) as error:
            if process.is_alive():
                os.kill(process.pid, signal.SIGUSR1)  # it prints where it stands
                process.join(5)
            process.kill()
            process.join()
            why = str(error) if isinstance(error, TimeoutError) else f'the process ended with {process.exitcode}'
            found, process = {setting: ('DIFFERS', why) for setting in settings}, None
        done.put((name, found))
    if process:
        ours.close()
        process.join()


def _child(connection, replicas):
    os.environ |= {'ESTIMATOR_TRAINER_REPORT': 'off', 'TF_CPP_MIN_LOG_LEVEL': '3'}
    shown = os.environ.get('DIFFERENTIAL_LOG', os.devnull)
    with open(shown, 'a') as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    from estimator_trainer import compat

    compat.bring_up()
    from tests.differential import played

    played.prepare(replicas)
    while True:
        try:
            name, settings = connection.recv()
        except EOFError:
            return
        connection.send(played.verdicts(name, settings))
