"""compat.tf1_names.contrib: crf and RNNs, by their definitions."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.tf1_names.contrib import crf, rnn

v1 = tf.compat.v1


def run(build):
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        fetched = build()
        session.run(v1.global_variables_initializer())
        return session.run(fetched)


@pytest.fixture
def chain():
    """(scores [3, 4, 3], tags, lengths, transitions) of three sequences: of four steps, of two, of one."""
    random = np.random.default_rng(0)
    return (
        random.normal(size=[3, 4, 3]).astype(np.float32),
        random.integers(0, 3, [3, 4]).astype(np.int32),
        np.array([4, 2, 1], np.int32),
        random.normal(size=[3, 3]).astype(np.float32),
    )


def score(scores, tags, transitions):
    steps = sum(scores[step, tag] for step, tag in enumerate(tags))
    return steps + sum(transitions[first, second] for first, second in itertools.pairwise(tags))


def test_crf_counts_all_sequences_of_tags(chain):
    scores, tags, lengths, transitions = chain
    likelihood = run(lambda: crf.crf_log_likelihood(scores, tags, lengths, transitions)[0])
    decoded, best = run(lambda: crf.crf_decode(scores, transitions, lengths))
    for row, length in enumerate(lengths):
        every = {
            chosen: score(scores[row], chosen, transitions) for chosen in itertools.product(range(3), repeat=length)
        }
        total = np.log(sum(np.exp(each) for each in every.values()))
        assert likelihood[row] == pytest.approx(score(scores[row], tags[row, :length], transitions) - total, abs=1e-5)
        expected = max(every, key=every.get)
        assert tuple(decoded[row]) == expected + (0,) * (4 - length)
        assert best[row] == pytest.approx(every[expected], abs=1e-5)
        found, its_score = crf.viterbi_decode(scores[row, :length], transitions)
        assert tuple(found) == expected and its_score == pytest.approx(every[expected], abs=1e-5)


@pytest.mark.parametrize('time', [1, 2, 3])
def test_crf_of_shapes_that_are_not_known_beforehand(time):
    """The longest sequence of a batch may have one step."""
    with tf.Graph().as_default(), v1.Session() as session:
        scores = v1.placeholder(tf.float32, [None, None, 4])
        tags, lengths = v1.placeholder(tf.int32, [None, None]), v1.placeholder(tf.int32, [None])
        transitions = np.random.RandomState(0).normal(size=[4, 4]).astype(np.float32)
        likelihood, _ = crf.crf_log_likelihood(scores, tags, lengths, transitions)
        gradient = tf.gradients(likelihood, scores)[0]
        decoded, best = crf.crf_decode(scores, transitions, lengths)
        values = np.random.RandomState(1).normal(size=[2, time, 4])
        given = {scores: values, tags: np.ones([2, time]), lengths: [time, 1]}
        found = session.run([likelihood, gradient, decoded, best], given)
    assert np.isfinite(found[0]).all() and np.isfinite(found[1]).all()
    for row, length in ((0, time), (1, 1)):
        expected, score = crf.viterbi_decode(values[row, :length], transitions)
        assert found[2][row].tolist() == expected + [0] * (time - length)
        np.testing.assert_allclose(found[3][row], score, rtol=1e-5)
    np.testing.assert_allclose(
        found[0][1], values[1, 0, 1] - np.log(np.exp(values[1, 0]).sum()), rtol=1e-5
    )  # of a sequence with one step


def test_crf_learns_its_transitions(chain):
    scores, tags, lengths, _ = chain

    def build():
        likelihood, transitions = crf.crf_log_likelihood(scores, tags, lengths)
        assert transitions.op.name == 'transitions'
        return tf.gradients(likelihood, transitions)

    (gradient,) = run(build)
    assert np.abs(gradient).sum() > 0.1


@pytest.mark.parametrize('lengths', [None, [5, 2, 0]])
def test_a_fused_lstm_is_the_cell_step_by_step(lengths):
    x = np.random.default_rng(0).normal(size=[5, 3, 2]).astype(np.float32)

    def build():
        fused = rnn.LSTMBlockFusedCell(4)
        outputs, state = fused(tf.constant(x), dtype=tf.float32, sequence_length=lengths)
        kernel, bias = v1.global_variables()
        assert (kernel.op.name, bias.op.name) == ('lstm_fused_cell/kernel', 'lstm_fused_cell/bias')
        return kernel, outputs, state, tf.gradients(outputs, kernel)

    kernel, outputs, (c, h), (gradient,) = run(build)
    expected = np.zeros([5, 3, 4], np.float32)
    for row in range(3):
        cell = hidden = np.zeros(4, np.float32)
        for step in range(5 if lengths is None else lengths[row]):
            i, j, f, o = np.split(np.concatenate([x[step, row], hidden]) @ kernel, 4)
            cell = cell * _sigmoid(f + 1.0) + _sigmoid(i) * np.tanh(j)
            hidden = expected[step, row] = np.tanh(cell) * _sigmoid(o)
        np.testing.assert_allclose(c[row], cell, atol=1e-6)
        np.testing.assert_allclose(h[row], hidden, atol=1e-6)
    np.testing.assert_allclose(outputs, expected, atol=1e-6)
    assert np.abs(gradient).sum() > 0


@pytest.mark.parametrize('lengths', [None, [5, 2, 1]])
def test_a_reversed_fused_lstm_begins_at_the_end(lengths):
    x = np.random.default_rng(0).normal(size=[5, 3, 2]).astype(np.float32)

    def build():
        cell = rnn.LSTMBlockFusedCell(4)
        forward, _ = cell(tf.constant(_reversed(x, lengths)), dtype=tf.float32, sequence_length=lengths)
        backward, _ = rnn.TimeReversedFusedRNN(cell)(tf.constant(x), dtype=tf.float32, sequence_length=lengths)
        assert len(v1.global_variables()) == 2
        return forward, backward

    forward, backward = run(build)
    np.testing.assert_allclose(backward, _reversed(forward, lengths), atol=1e-6)


def test_a_second_cell_has_variables_of_its_own():
    def build():
        for _ in range(2):
            rnn.LSTMBlockFusedCell(4, use_peephole=True)(tf.zeros([5, 3, 2]), dtype=tf.float32)
        return {variable.op.name: tf.constant(0) for variable in v1.global_variables()}

    found = run(build)
    assert len(found) == 10 and 'lstm_fused_cell_1/w_f_diag' in found


def test_a_list_is_reversed_as_a_whole():
    x = np.random.default_rng(0).normal(size=[5, 3, 2]).astype(np.float32)

    def build():
        cell, options = rnn.LSTMBlockFusedCell(4), dict(dtype=tf.float32, sequence_length=[5, 2, 1])
        assert cell.weights == []
        forward, _ = cell(tf.unstack(x[::-1]), **options, scope='fw')
        backward, _ = rnn.TimeReversedFusedRNN(cell)(tf.unstack(x), **options, scope='not the first')
        assert [variable.op.name for variable in cell.trainable_variables] == ['fw/kernel', 'fw/bias']
        assert cell.weights == v1.global_variables()
        return tf.stack(forward), tf.stack(backward)

    forward, backward = run(build)
    np.testing.assert_allclose(backward, forward[::-1], atol=1e-6)


@pytest.mark.parametrize('is_list', [False, True])
@pytest.mark.parametrize('use_dynamic_rnn', [False, True])
def test_an_adaptor_runs_a_cell_over_a_sequence(is_list, use_dynamic_rnn):
    x = np.random.default_rng(0).normal(size=[5, 3, 2]).astype(np.float32)

    def build():
        fused = rnn.FusedRNNCellAdaptor(v1.nn.rnn_cell.BasicRNNCell(4), use_dynamic_rnn)
        given = tf.unstack(x) if is_list else tf.constant(x)
        outputs, state = rnn.TimeReversedFusedRNN(fused)(given, dtype=tf.float32, scope='bw')
        assert isinstance(outputs, list) == is_list
        kernel, bias = v1.global_variables()
        assert kernel.op.name == 'bw/basic_rnn_cell/kernel'
        return kernel, tf.stack(outputs), state

    kernel, outputs, state = run(build)
    expected = np.zeros([3, 4], np.float32)
    for step in reversed(range(5)):
        expected = np.tanh(np.concatenate([x[step], expected], 1) @ kernel)
        np.testing.assert_allclose(outputs[step], expected, atol=1e-6)
    np.testing.assert_allclose(state, expected, atol=1e-6)


@pytest.mark.parametrize('lengths', [None, [5, 2, 1]])
@pytest.mark.parametrize('is_static', [False, True])
def test_a_stack_reads_both_directions_of_the_layer_below(lengths, is_static):
    x = np.random.default_rng(0).normal(size=[3, 5, 2]).astype(np.float32)

    def cells():
        return [v1.nn.rnn_cell.LSTMCell(4), v1.nn.rnn_cell.LSTMCell(3)]

    def build():
        options = {'dtype': tf.float32, 'sequence_length': lengths}
        if is_static:
            outputs, *ends = rnn.stack_bidirectional_rnn(cells(), cells(), tf.unstack(x, axis=1), **options)
            outputs = tf.stack(outputs, 1)
        else:
            outputs, *ends = rnn.stack_bidirectional_dynamic_rnn(cells(), cells(), tf.constant(x), **options)
        below = tf.constant(x)
        expected_ends = [], []
        for number, (forward, backward) in enumerate(zip(cells(), cells())):
            with v1.variable_scope(f'stack_bidirectional_rnn/cell_{number}', reuse=True):
                both, states = v1.nn.bidirectional_dynamic_rnn(forward, backward, below, **options)
                below = tf.concat(both, 2)
            for end, state in zip(expected_ends, states):
                end.append(state)
        assert len(v1.global_variables()) == 8
        return (outputs, *ends), (below, *expected_ends)

    found, expected = run(build)
    assert found[0].shape == (3, 5, 6)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected)):
        np.testing.assert_allclose(one, other, atol=1e-6)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _reversed(x, lengths):
    x = x.copy()
    for row in range(x.shape[1]):
        length = len(x) if lengths is None else lengths[row]
        x[:length, row] = x[:length, row][::-1].copy()
    return x
