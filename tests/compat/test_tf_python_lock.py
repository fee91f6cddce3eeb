"""compat.patches.python_lock: a task that waits for another still runs its own threads."""

import json
import sys
import threading

import launch
import tensorflow as tf
from tensorflow.python import pywrap_tfe

from estimator_trainer.compat import lacks
from estimator_trainer.compat.patches import python_lock
from estimator_trainer.supervisor.processes import ports

_WAITING = """
import json, os, socket, sys, threading, time
import tensorflow as tf
from tensorflow.python.eager import context
from estimator_trainer.compat.patches import coordination_service, python_lock
assert python_lock.install() and python_lock.install()
folder = sys.argv[1]
config = json.loads(os.environ['TF_CONFIG'])
def until(condition):
    while not condition():
        time.sleep(.01)
def said(word):
    return os.path.exists(os.path.join(folder, word))
def say(word):
    open(os.path.join(folder, word), 'w').close()
def listens():
    with socket.socket() as client:
        return client.connect_ex(('localhost', int(config['cluster']['worker'][0].split(':')[1]))) == 0
def thread_of_the_one_that_waits():
    until(listens)
    say('it connects')
    until(lambda: said('the other has connected'))
    say('it waits')
if config['task']['index'] == 0:
    threading.Thread(target=thread_of_the_one_that_waits).start()
else:
    until(lambda: said('it connects'))
with coordination_service.heartbeats_put_off():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
if config['task']['index'] == 1:
    say('the other has connected')
    until(lambda: said('it waits'))
context.context().wait_at_barrier('all', 30000)
if config['task']['index'] == 1:
    until(lambda: said('that is all'))
    os._exit(0)
try:
    context.context().wait_at_barrier('nobody comes', 200)
except tf.errors.DeadlineExceededError as error:
    print('LATE', error.message, flush=True)
say('that is all')
os._exit(0)
"""


def test_threads_run_while_their_task_connects_and_waits(tmp_path):
    def task(index):
        return launch.start(
            [sys.executable, '-c', _WAITING, tmp_path],
            TF_CONFIG=json.dumps(
                {
                    'cluster': {'worker': [f'localhost:{port}' for port in claimed.ports]},
                    'task': {'type': 'worker', 'index': index},
                }
            ),
        )

    with ports.claim(2) as claimed, task(0) as one, task(1) as two:
        timer = threading.Timer(300, lambda: [process.kill() for process in (one, two)])
        timer.start()
        outputs = [process.communicate()[0] for process in (one, two)]
        timer.cancel()
    assert [one.returncode, two.returncode] == [0, 0], outputs
    assert 'LATE ' in outputs[0] and 'nobody comes' in outputs[0], outputs


def test_a_tensorflow_that_is_built_in_another_way_keeps_its_own(monkeypatch, caplog, tmp_path):
    before = pywrap_tfe.TFE_WaitAtBarrier
    monkeypatch.setattr(tf.sysconfig, 'get_lib', lambda: str(tmp_path))  # its C library is not there
    monkeypatch.setattr(lacks, 'left_out', set())
    assert not python_lock.install()
    assert pywrap_tfe.TFE_WaitAtBarrier is before
    (line,) = caplog.messages
    assert 'is built in another way' in line and 'a task that waits for others sees no signal' in line


def test_a_context_in_another_form_is_waited_for_with_the_lock(monkeypatch, caplog):
    called = []
    for name in python_lock._WAITING:
        monkeypatch.setattr(pywrap_tfe, name, lambda *arguments: called.append(arguments))
    monkeypatch.setattr(lacks, 'left_out', set())
    assert python_lock.install()
    context = object()
    pywrap_tfe.TFE_WaitAtBarrier(context, 'all', 1)
    pywrap_tfe.TFE_InsertConfigKeyValue(context, 'key', 'text')
    assert called == [(context, 'all', 1), (context, 'key', 'text')]
    (line,) = caplog.messages
    assert 'has its context in another form. The run goes on' in line
