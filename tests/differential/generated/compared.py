"""Runs a program in single steps and in calls of several, and compares to the bit."""

import dataclasses
import re
import traceback

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from estimator_trainer.training import step_loop
from tests.differential.generated.steps import Step

v1 = tf.compat.v1
STEPS, CALL = 9, 7

EQUAL, ROUNDED = 'equal', "equal but for how TensorFlow's rewriting of graphs rounds"


class Differs(AssertionError):
    """Calls of several steps have computed something else, or failed. The text says what."""


class Invalid(Exception):
    """TensorFlow itself cannot build or run the program."""


def outcome(program) -> str:
    """EQUAL, ROUNDED, or 'refused: why' where the step was not made a loop.

    TensorFlow's optimizer of graphs may write a sum of products in another way if something else is fetched. What
    differs by that in the last bits has to be equal to the bit without that optimizer.

    Raises:
        Differs: the loop does not compute what single steps compute.
        Invalid: the program says nothing about loops.
    """
    with tf.Graph().as_default() as graph:
        try:
            step = Step(program)
            expected = _run(graph, step, None, program.rewritten)
        except Exception as error:  # whatever TensorFlow has against a program
            raise Invalid(_first_line(error)) from error
        try:
            last = step.values if program.last else ()
            loop = step_loop.make(step.train_op, step.loss, None, step.summary, last, counted=step.counted)
        except step_loop.CannotLoop as error:
            return 'refused: ' + without_names(str(error))
        except Exception as error:
            raise Differs(f'cannot be built: {_first_line(error)}') from error
        try:
            found = _run(graph, step, loop, program.rewritten)
        except Exception as error:
            raise Differs(f'cannot be run: {_first_line(error)}') from error
    wrong = [name for name in found if not _same(expected[name], found[name])]
    if wrong:
        again = _run(graph, step, None, program.rewritten)
        if any(not _same(expected[name], again[name]) for name in found):
            raise Invalid('single steps are not repeatable')
        name = wrong[0]
        if program.rewritten and all(_close(expected[name], found[name]) for name in wrong):
            if outcome(dataclasses.replace(program, rewritten=False)) == EQUAL:
                return ROUNDED
        raise Differs(
            f'other numbers: {", ".join(wrong)}: {_shown(expected[name])} in single steps, '
            f'{_shown(found[name])} in calls'
        )
    return EQUAL


def _run(graph, step, loop, rewritten) -> dict:
    """name -> what the run has come to."""
    with v1.Session(graph=graph, config=_config(rewritten, loop)) as session:
        session.run(step.start)
        session.run(step.fill)
        losses = []
        if loop is None:
            fetches = [step.loss, step.values, *([] if step.summary is None else [step.summary])]
            for _ in range(STEPS):
                loss, values, *summary = session.run([*fetches, step.train_op])[:-1]
                losses.append(loss)
        else:
            fetches = [loop.losses, loop.done, [loop.last[value.ref()] for value in step.values if loop.last]]
            fetches += [] if loop.summary is None else [loop.summary]
            left = STEPS
            while left:  # a call ends early after a step that has not moved the global step by 1
                most, first = min(CALL, left), session.run(step.count)
                feeds = {loop.most: most, loop.first: first, loop.summarises: True}
                some, done, values, *summary = session.run(fetches, feeds)
                if not 0 < done <= most or (done < most and step.counted is None):
                    raise ValueError(f'a call of {most} steps took {done}')
                losses += list(some)
                left -= done
        state = {'losses': np.array(losses)}
        state |= session.run(step.state)
        state |= {f'next of {name}': value for name, value in session.run(step.read).items()}
        state |= {f'value {number}': value for number, value in enumerate(values)}
        state |= {f'summary {number}': value for number, value in enumerate(summary)}
        return state


def _config(rewritten, loop):
    config = v1.ConfigProto(
        inter_op_parallelism_threads=3, intra_op_parallelism_threads=1, operation_timeout_in_ms=60_000
    )
    config.graph_options.rewrite_options.disable_meta_optimizer = not rewritten
    if loop is not None and loop.has_ordered_calls:  # as several_steps has it
        config.graph_options.rewrite_options.function_optimization = rewriter_config_pb2.RewriterConfig.OFF
    return config


def _same(one, other) -> bool:
    if isinstance(one, bytes):
        return one == other
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == 'f')


def _close(one, other) -> bool:
    if isinstance(one, bytes):
        return True  # a summary of such numbers
    return one.dtype == other.dtype and np.allclose(one, other, 1e-5, 1e-5)


def _shown(value) -> str:
    return str(value if isinstance(value, bytes) else np.round(np.ravel(value)[:9].astype(float), 3).tolist())[:100]


def without_names(text) -> str:
    """The text of a refusal without the names of operations in it."""
    return re.sub(r'[\w/]*(?:_\d+|/)[\w/:^]*', 'OP', re.sub(r'\b[a-z]+\d+\b', 'OP', text))


def _first_line(error) -> str:
    text = getattr(error, 'message', None) or str(error)
    lines = [line for line in text.splitlines() if line.strip() and 'Graph execution error' not in line]
    return f'{type(error).__name__}: {lines[0][:300] if lines else traceback.extract_tb(error.__traceback__)[-1]}'
