"""lifecycle.probes asks a server of TensorFlow's."""

import time

import tensorflow as tf

from estimator_trainer.lifecycle import probes
from estimator_trainer.lifecycle.probes import Answer


def test_a_server_of_tensorflow_greets():
    server = tf.distribute.Server.create_local_server()
    address = server.target.removeprefix('grpc://')
    ask = probes.Prober()
    until_known = time.monotonic() + 30
    while ask([address])[address] is not Answer.GREETS:  # its name is resolved meanwhile
        assert time.monotonic() < until_known
    assert ask([address, '127.0.0.1:1']) == {address: Answer.GREETS, '127.0.0.1:1': Answer.REFUSES}
