"""evaluation.serving_inputs: what a job's serving_input_fn may return, and when that is looked at."""

import logging
from types import SimpleNamespace

import pytest
import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import exporters, serving_inputs
from estimator_trainer.jobs.job import Job
from tests import fakes


def job_with(serving_input_fn):
    return Job(
        model_fn=lambda features, labels, mode: None, input_fn=lambda mode: None, serving_input_fn=serving_input_fn
    )


def made(serving_input_fn):
    """The exporters of a job."""
    job = job_with(serving_input_fn)
    return exporters.make(['best', 'final'], job, serving_inputs.serving_input_fn_of(job, fakes.params(), None))


def receiver():
    images = tf.compat.v1.placeholder(tf.float32, [None, 2])
    return tf.estimator.export.ServingInputReceiver({'image': images}, images)


def test_a_receiver():
    assert [exporter.name for exporter in made(receiver)] == ['best', 'final']
    tensors = tf.estimator.export.TensorServingInputReceiver
    assert made(lambda: SimpleNamespace(**dict.fromkeys(tensors._fields)))


@pytest.mark.parametrize('returned, called', [({'image': 1}, 'a dict'), (None, 'nothing')])
def test_something_else_is_refused_before_training(returned, called):
    with pytest.raises(UsageError, match=f'the serving_input_fn returns {called}, and a'):
        made(lambda: returned)


def test_one_that_fails_may_have_what_it_reads_later(caplog):
    with caplog.at_level(logging.WARNING):
        assert made(lambda: {}['vocabulary'])
    assert "the serving_input_fn has failed, so there would be no export: 'vocabulary'" in caplog.text
