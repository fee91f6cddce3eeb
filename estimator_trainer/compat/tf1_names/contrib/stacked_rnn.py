"""tf.contrib.rnn's stacks of bidirectional layers, each of which reads the outputs of both directions of the one below.

Behaviour: https://www.tensorflow.org/versions/r1.15/api_docs/python/tf/contrib/rnn
"""

import tensorflow as tf

v1 = tf.compat.v1


def stack_bidirectional_dynamic_rnn(
    cells_fw,
    cells_bw,
    inputs,
    initial_states_fw=None,
    initial_states_bw=None,
    dtype=None,
    sequence_length=None,
    parallel_iterations=None,
    time_major=False,
    scope=None,
    swap_memory=False,
):
    """Layers of tf.compat.v1.nn.bidirectional_dynamic_rnn.

    Args:
        cells_fw, cells_bw: a cell of each direction for each layer.
        inputs: [batch, time, depth], or [time, batch, depth] if time_major.
        initial_states_fw, initial_states_bw: a state for each layer; zeros by default.
        dtype, sequence_length, parallel_iterations, time_major, swap_memory: as for one layer.
        scope: variable scope; 'stack_bidirectional_rnn' by default.

    Returns:
        The outputs of the last layer, forward and backward ones beside each other; and two tuples of states, one of
        the forward cells and one of the backward cells.
    """
    options = {'dtype': dtype, 'parallel_iterations': parallel_iterations, 'swap_memory': swap_memory}

    def layer(cell_fw, cell_bw, below, state_fw, state_bw):
        outputs, states = v1.nn.bidirectional_dynamic_rnn(
            cell_fw, cell_bw, below, sequence_length, state_fw, state_bw, time_major=time_major, **options
        )
        return tf.concat(outputs, 2), *states

    return _stack(layer, cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope)


def stack_bidirectional_rnn(
    cells_fw,
    cells_bw,
    inputs,
    initial_states_fw=None,
    initial_states_bw=None,
    dtype=None,
    sequence_length=None,
    scope=None,
):
    """Layers of tf.compat.v1.nn.static_bidirectional_rnn: inputs and outputs are lists of `time` tensors."""

    def layer(cell_fw, cell_bw, below, state_fw, state_bw):
        return v1.nn.static_bidirectional_rnn(cell_fw, cell_bw, below, state_fw, state_bw, dtype, sequence_length)

    return _stack(layer, cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope)


def _stack(layer, cells_fw, cells_bw, outputs, states_fw, states_bw, scope):
    cells_fw, cells_bw = list(cells_fw), list(cells_bw)
    states_fw, states_bw = (states or [None] * len(cells_fw) for states in (states_fw, states_bw))
    if not cells_fw or not len(cells_fw) == len(cells_bw) == len(states_fw) == len(states_bw):
        raise ValueError(
            'A stack needs at least one layer, and for each a cell of both directions, and a state or none'
        )
    ends_fw, ends_bw = [], []
    with v1.variable_scope(scope or 'stack_bidirectional_rnn'):
        for number, of_the_layer in enumerate(zip(cells_fw, cells_bw, states_fw, states_bw)):
            cell_fw, cell_bw, state_fw, state_bw = of_the_layer
            with v1.variable_scope(f'cell_{number}'):
                outputs, end_fw, end_bw = layer(cell_fw, cell_bw, outputs, state_fw, state_bw)
            ends_fw.append(end_fw)
            ends_bw.append(end_bw)
    return outputs, tuple(ends_fw), tuple(ends_bw)
