"""evaluation.serving_inputs: what a job's serving_input_fn may return, and when that is looked at."""

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


def check(serving_input_fn, kinds=('best', 'final')):
    """As a run does before it trains. What the function has returned."""
    returned = []
    job = job_with(lambda: returned.append(serving_input_fn()) or returned[-1])
    made = serving_inputs.serving_input_fn_of(job, fakes.params(), None)
    exporters.Exports('unused', exporters.make(kinds, job, made), made).check()
    return returned


def receiver():
    images = tf.compat.v1.placeholder(tf.float32, [None, 2])
    return tf.estimator.export.ServingInputReceiver({'image': images}, images)


def test_a_receiver():
    (returned,) = check(receiver)
    assert returned.features['image'].graph is not tf.compat.v1.get_default_graph()  # it was thrown away
    tensors = tf.estimator.export.TensorServingInputReceiver
    assert len(check(lambda: SimpleNamespace(**dict.fromkeys(tensors._fields)))) == 1


def test_nothing_is_called_where_nothing_is_exported():
    assert check(receiver, kinds=()) == []


@pytest.mark.parametrize('returned, called', [({'image': 1}, 'a dict'), (None, 'nothing')])
def test_something_else_is_refused_before_training(returned, called):
    with pytest.raises(UsageError, match=f'the serving_input_fn returns {called}, and a'):
        check(lambda: returned)


def test_one_that_fails_may_have_what_it_reads_later():
    check(lambda: {}['vocabulary'])
    with pytest.raises(KeyError):
        serving_inputs.serving_input_fn_of(job_with(lambda: {}['vocabulary']), fakes.params(), None)()


KINDS = {name: tf.as_dtype(name) for name in ('int8', 'int32', 'uint8', 'uint16', 'uint32', 'uint64', 'bool')}


def served(features, values):
    """What an export's model gets of an Example with these whole numbers."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        received = serving_inputs.parsed_examples(features)()
        example = tf.train.Example()
        for name, value in values.items():
            example.features.feature[name].int64_list.value.append(value)
        ((fed,),) = [received.receiver_tensors.values()]
        return session.run(received.features, {fed: [example.SerializeToString()]})


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('feature', [tf.io.FixedLenFeature([], tf.int64), tf.io.VarLenFeature(tf.int64)])
def test_a_served_number_is_that_of_the_example_or_an_error(kind, feature):
    """Training refuses a number that its type does not hold. A served model must not take another one for it."""
    dtype = KINDS[kind]
    features = {'n': feature._replace(dtype=dtype)}
    limits = (0, 1) if dtype.is_bool else (dtype.min, min(dtype.max, 2**63 - 1))
    for value in limits:
        got = served(features, {'n': value})['n']
        assert list(getattr(got, 'values', got)) == [value]
    for value in (limits[0] - 1, limits[1] + 1):
        if value < 2**63:
            with pytest.raises(tf.errors.InvalidArgumentError, match=f'n is no {kind}'):
                served(features, {'n': value})


def test_an_export_that_rounds_says_so(caplog):
    serving_inputs.parsed_examples({'x': tf.io.FixedLenFeature([], tf.float64), 'n': tf.io.VarLenFeature(tf.float32)})
    assert 'served values of x are rounded to float32' in caplog.text
