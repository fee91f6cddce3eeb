"""The weights that parity compares, read from real checkpoints of Estimators."""

import json

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.jobs import Job
from estimator_trainer.tools import bounded
from estimator_trainer.tools.comparison import parity_results, parity_runs
from estimator_trainer.tools.comparison.traces import WEIGHTS

v1 = tf.compat.v1
STEPS = 2
JOB = f'{__name__}:job'


def model_fn(features, labels, mode, params):
    raise NotImplementedError


def input_fn(mode, params, input_context=None):
    raise NotImplementedError


job = Job(model_fn=model_fn, input_fn=input_fn)  # parity only asks whether it has a make_model


def run(folder, kernel, saved=('kernel', 'bias')):
    """The model_dir of a run with a table in two parts, as Estimators of tf.compat.v1 make them."""
    folder.mkdir()
    with tf.Graph().as_default(), v1.Session() as session:
        first = v1.constant_initializer(kernel)
        table = v1.get_variable('kernel', [4, 2], initializer=first, partitioner=v1.fixed_size_partitioner(2))
        bias = v1.get_variable('bias', [2], initializer=v1.zeros_initializer())
        global_step = v1.train.create_global_step()
        session.run(v1.global_variables_initializer())
        weights = [each for each, name in ((table, 'kernel'), (bias, 'bias')) if name in saved]
        saver = v1.train.Saver([global_step, *weights])
        for step in range(STEPS + 1):
            session.run(global_step.assign(step))
            saver.save(session, str(folder / 'model.ckpt'), global_step=step)
    lines = [json.dumps({'kind': 'train', 'step': step, 'loss': 1.0}) for step in range(1, STEPS + 1)]
    (folder / 'metrics.jsonl').write_text('\n'.join(lines) + '\n')
    return parity_runs.PlannedRun(folder.name, str(folder), ())


def read(*runs):
    return parity_runs.read(runs, JOB, '')


def test_a_table_in_parts_is_compared(tmp_path):
    one, other = read(run(tmp_path / 'one', 1), run(tmp_path / 'other', 2))
    names = {key.name for key in one.values if key.thing == WEIGHTS}
    assert names == one.trainable == {'kernel', 'bias'}
    (pair,) = parity_results.pairs([one, other], 1e-5)
    assert (pair.first['variable'], pair.first['step']) == ('kernel', 0)
    np.testing.assert_allclose(pair.rows[WEIGHTS].largest, 0.5)


def test_a_weight_that_is_not_in_a_checkpoint_is_no_equality(tmp_path):
    with pytest.raises(bounded.RunFailed, match='lacks.* weight.*bias'):
        read(run(tmp_path / 'one', 1, saved=['kernel']), run(tmp_path / 'other', 1))
