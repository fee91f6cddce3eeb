"""What the input_fn of each task gets: where it goes on in the data."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.data import array_batches
from estimator_trainer.jobs.run_params import RunParams
from estimator_trainer.training import params_of_run
from tests.training.test_plan import PS, planned

EXAMPLES, BATCH, SEED = 96, 8, 1


def batches(flags, start_step, shift, count):
    """The ids of the first batches of all workers, in the order in which they take turns."""
    rows = []
    for index, task in enumerate(('chief:0', 'worker:0', 'worker:1')):
        plan = planned(PS, task, *flags)
        batch, replicas = plan.global_batch_size, plan.num_replicas
        params = RunParams(
            {}, BATCH, replicas, replicas, batch, 100, EXAMPLES, SEED, start_step=start_step, position_shift=shift
        )
        context = tf.distribute.InputContext(3, index, replicas)
        given = params_of_run.of_input_fn(params, plan)
        ids = np.arange(EXAMPLES)
        data = array_batches({'id': ids}, ids, tf.estimator.ModeKeys.TRAIN, given, context)
        rows.append([tuple(labels) for _, labels in itertools.islice(data.as_numpy_iterator(), count)])
    return list(itertools.chain(*zip(*rows)))


@pytest.mark.parametrize('step, shift', [(0, 0), (1, 0), (5, 0), (6, 16)])
@pytest.mark.parametrize('flags, batches_per_step', [((), 1), (('--sync_ps',), 3)])
def test_workers_with_parameter_servers_go_on_behind_what_the_steps_have_trained(flags, batches_per_step, step, shift):
    once = batches(flags, 0, 0, 12)
    assert len(set(itertools.chain(*once[: EXAMPLES // BATCH]))) == EXAMPLES
    trained = step * batches_per_step + shift // BATCH
    assert batches(flags, step, shift, 4) == once[trained : trained + 12]
