"""tf.contrib.rnn's fused cells, a whole sequence in one operation, and stacks of bidirectional layers.

Touches: gen_rnn_ops in tensorflow.python.ops
Without it: there is no tf.contrib.rnn.LSTMBlockFusedCell
For: programs under `compat run --tf1`

Behaviour: https://www.tensorflow.org/versions/r1.15/api_docs/python/tf/contrib/rnn
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import gen_rnn_ops, rnn_grad  # noqa: F401  the second registers BlockLSTM's gradient

v1 = tf.compat.v1
LSTMStateTuple = v1.nn.rnn_cell.LSTMStateTuple


class FusedRNNCell:
    """A cell that takes a whole sequence: [time, batch, depth] in, (outputs, final state) out."""


class LSTMBlockFusedCell(FusedRNNCell):
    """An LSTM as one operation.

    Args:
        num_units: depth of the state and of the outputs.
        forget_bias: is added to the forget gate's bias.
        cell_clip: the cell's state is kept within -cell_clip and cell_clip; None or not above 0: it is not.
        use_peephole: whether the gates look at the cell's state.
        reuse: as in tf.compat.v1.variable_scope.
        dtype: of the variables and the state; that of the inputs by default.
        name: of the variable scope.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: Any = None,
        dtype: tf.DType | None = None,
        name: str = 'lstm_fused_cell',
    ) -> None:
        self._num_units, self._forget_bias, self._use_peephole = num_units, forget_bias, use_peephole
        self._cell_clip = cell_clip if cell_clip is not None and cell_clip > 0 else -1
        self._reuse, self._dtype, self._name = reuse, dtype, name
        self._variables: Any = None

    @property
    def num_units(self) -> int:
        return self._num_units

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: tf.DType | None = None,
        sequence_length: tf.Tensor | None = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """Runs the sequence.

        Args:
            inputs: [time, batch, depth], or a list of `time` tensors [batch, depth].
            initial_state: (c, h), each [batch, num_units]; zeros by default.
            dtype: of the zeros.
            sequence_length: [batch], how many steps of each sequence count; all by default.
            scope: of the variables, in place of `name`; counts at the first call.

        Returns:
            Outputs as the inputs are, [time, batch, num_units], zero behind the end of each sequence; and the state
            LSTMStateTuple(c, h) after the last step that counts.
        """
        is_list = isinstance(inputs, list)
        x = tf.stack(inputs) if is_list else tf.convert_to_tensor(inputs)
        time, batch = tf.shape(x)[0], tf.shape(x)[1]
        kernel, bias, peepholes = self._made(x, scope)
        if initial_state is None:
            initial_state = [tf.zeros([batch, self._num_units], dtype or x.dtype)] * 2
        c, h = (tf.cast(state, x.dtype) for state in initial_state)
        longest = time if sequence_length is None else tf.reduce_max(sequence_length)
        _, cells, _, _, _, _, outputs = gen_rnn_ops.block_lstm(
            seq_len_max=tf.cast(longest, tf.int64),
            x=x,
            cs_prev=c,
            h_prev=h,
            w=kernel,
            wci=peepholes[0],
            wcf=peepholes[1],
            wco=peepholes[2],
            b=bias,
            forget_bias=self._forget_bias,
            cell_clip=self._cell_clip,
            use_peephole=self._use_peephole,
        )
        if sequence_length is None:
            state = LSTMStateTuple(cells[-1], outputs[-1])
        else:
            lengths = tf.cast(sequence_length, tf.int32)
            state = LSTMStateTuple(*(_at_end(series, start, lengths) for series, start in ((cells, c), (outputs, h))))
            counts = tf.sequence_mask(lengths, time, outputs.dtype)
            outputs *= tf.transpose(counts)[:, :, None]
        outputs.set_shape([x.shape[0], x.shape[1], self._num_units])
        return (tf.unstack(outputs) if is_list else outputs), state

    @property
    def weights(self) -> list[Any]:
        """The variables; none before the first call."""
        kernel, bias, peepholes = self._variables or (None, None, [])
        return [] if kernel is None else [kernel, bias, *(peepholes if self._use_peephole else [])]

    variables = trainable_weights = trainable_variables = weights

    def _made(self, x: tf.Tensor, scope: Any) -> tuple[Any, Any, list[Any]]:
        """(kernel, bias, three peepholes), made at the first call."""
        if self._variables is None:
            units, dtype = self._num_units, self._dtype or x.dtype
            if scope is None and self._reuse:
                scope = self._name
            # Without a scope, a second cell gets a name of its own.
            with v1.variable_scope(scope, self._name, reuse=self._reuse):
                kernel = v1.get_variable('kernel', [int(x.shape[2]) + units, 4 * units], dtype)
                bias = v1.get_variable('bias', [4 * units], dtype, v1.zeros_initializer())
                if self._use_peephole:
                    peepholes = [v1.get_variable(f'w_{gate}_diag', [units], dtype) for gate in 'ifo']
                else:
                    peepholes = [tf.zeros([units], dtype)] * 3
            self._variables = kernel, bias, peepholes
        return self._variables


class TimeReversedFusedRNN(FusedRNNCell):
    """Runs a fused cell from the end of each sequence to its beginning.

    Args:
        cell: a FusedRNNCell.
    """

    def __init__(self, cell: Callable[..., Any]) -> None:
        self._cell = cell

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: tf.DType | None = None,
        sequence_length: tf.Tensor | None = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """As the cell's; the outputs stand in the order of the inputs. A list is reversed as a whole, whatever the
        lengths are."""
        outputs, state = self._cell(_reversed(inputs, sequence_length), initial_state, dtype, sequence_length, scope)
        return _reversed(outputs, sequence_length), state


class FusedRNNCellAdaptor(FusedRNNCell):
    """Runs a cell of tf.compat.v1.nn.rnn_cell step by step.

    Args:
        cell: an RNNCell.
        use_dynamic_rnn: whether a loop runs the steps; else each step has operations of its own.
    """

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        self._cell, self._use_dynamic_rnn = cell, use_dynamic_rnn

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: tf.DType | None = None,
        sequence_length: tf.Tensor | None = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """As that of LSTMBlockFusedCell; the state is the cell's."""
        options = dict(initial_state=initial_state, dtype=dtype, sequence_length=sequence_length, scope=scope)
        is_list = isinstance(inputs, list)
        if self._use_dynamic_rnn:
            x = tf.stack(inputs) if is_list else inputs
            outputs, state = v1.nn.dynamic_rnn(self._cell, x, time_major=True, **options)
            return (tf.unstack(outputs) if is_list else outputs), state
        outputs, state = v1.nn.static_rnn(self._cell, inputs if is_list else tf.unstack(inputs), **options)
        return (outputs if is_list else tf.stack(outputs)), state


def _at_end(series: tf.Tensor, start: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """What stands in [time, batch, units] at each sequence's last step; `start` where it has none."""
    series = tf.concat([start[None], series], axis=0)
    return tf.gather_nd(series, tf.stack([lengths, tf.range(tf.shape(lengths)[0])], axis=1))


def _reversed(x: Any, lengths: tf.Tensor | None) -> Any:
    if isinstance(x, list):
        return x[::-1]
    if lengths is None:
        return tf.reverse(x, [0])
    return tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Iterable[Any],
    cells_bw: Iterable[Any],
    inputs: Any,
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: tf.DType | None = None,
    sequence_length: tf.Tensor | None = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Layers of tf.compat.v1.nn.bidirectional_dynamic_rnn; each reads the outputs of both directions of the one below.

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

    def layer(cell_fw: Any, cell_bw: Any, below: Any, state_fw: Any, state_bw: Any) -> tuple[Any, ...]:
        outputs, states = v1.nn.bidirectional_dynamic_rnn(
            cell_fw, cell_bw, below, sequence_length, state_fw, state_bw, time_major=time_major, **options
        )
        return tf.concat(outputs, 2), *states

    return _stack(layer, cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope)


def stack_bidirectional_rnn(
    cells_fw: Iterable[Any],
    cells_bw: Iterable[Any],
    inputs: Any,
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: tf.DType | None = None,
    sequence_length: tf.Tensor | None = None,
    scope: Any = None,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Layers of tf.compat.v1.nn.static_bidirectional_rnn: inputs and outputs are lists of `time` tensors."""

    def layer(cell_fw: Any, cell_bw: Any, below: Any, state_fw: Any, state_bw: Any) -> tuple[Any, ...]:
        return v1.nn.static_bidirectional_rnn(cell_fw, cell_bw, below, state_fw, state_bw, dtype, sequence_length)

    return _stack(layer, cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope)


def _stack(
    layer: Callable[..., Any],
    cells_fw: Iterable[Any],
    cells_bw: Iterable[Any],
    outputs: Any,
    states_fw: Any,
    states_bw: Any,
    scope: Any,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
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
