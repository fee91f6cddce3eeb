"""What make_evaluator makes of a setup, and what input_fn_of notices of a job."""

import dataclasses
import types

import pytest
import tensorflow as tf

import tf_config
from estimator_trainer.config import trainer_config
from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import exact_evaluation
from estimator_trainer.jobs import Job
from estimator_trainer.jobs.run_params import RunParams
from estimator_trainer.training import plan as planning
from estimator_trainer.training import trainer
from tests import fakes

PARAMS = RunParams({}, 8, 1, 1, 8, max_steps=9, num_examples=100, seed=1)


def setup_of(monkeypatch, dataset=None, same_eval_data=False, batch_of_evaluation=8):
    """A Setup whose evaluator is made, and which RunParams its data and its Estimator get."""
    got = []
    estimator = types.SimpleNamespace(export_saved_model=None)
    monkeypatch.setattr(exact_evaluation, 'estimator_of', lambda job, params, *_: got.append(params) or estimator)
    monkeypatch.setattr(exact_evaluation, 'input_fn', lambda of_job, params, *_: got.append(params))
    setup = fakes.Setup(
        fakes.Plan(config=fakes.config(eval_batch_size=batch_of_evaluation, eval_strategy='none')),
        PARAMS,
        job=types.SimpleNamespace(same_eval_data=same_eval_data),
        dataset=dataset,
        run_configs=types.SimpleNamespace(local=None),
    )
    return setup, got


def test_the_batch_of_an_evaluation(monkeypatch):
    setup, got = setup_of(monkeypatch, batch_of_evaluation=50)
    trainer.make_evaluator(setup)
    assert got == [dataclasses.replace(PARAMS, batch_size=50)] * 2


@pytest.mark.parametrize(
    'dataset, same_eval_data, keeps', [(None, False, False), (None, True, True), ('a', False, True)]
)
def test_the_graph_of_evaluations_is_kept_where_their_data_are_the_same(monkeypatch, dataset, same_eval_data, keeps):
    setup, _ = setup_of(monkeypatch, dataset, same_eval_data)
    assert trainer.make_evaluator(setup)._keeps == keeps


@pytest.mark.parametrize(
    'strategy, loop, eval_strategy, in_training, in_evaluation',
    [
        ('none', 'estimator', 'none', '', ''),
        ('parameter_server', 'estimator', 'none', '', ''),
        ('mirrored', 'estimator', 'none', 'the strategy mirrored', ''),
        ('multi_worker_mirrored', 'estimator', 'mirrored', 'the strategy multi_worker_m', '--eval_strategy=mirrored'),
        ('none', 'keras_fit', 'none', '--loop=keras_fit', '--loop=keras_fit'),
    ],
)
def test_who_needs_a_data_set(strategy, loop, eval_strategy, in_training, in_evaluation):
    config = trainer_config.TrainerConfig(model_dir='', loop=loop, eval_strategy=eval_strategy)
    job = Job(model_fn=lambda features, labels, mode: None, input_fn=lambda: ('features', 'labels'))
    plan = planning.Plan(config, strategy, None, None, (), job)
    input_fn = trainer.input_fn_of(plan, None)
    for mode, needed_by in (('train', in_training), ('eval', in_evaluation)):
        if needed_by:
            with pytest.raises(UsageError, match=f'a tuple and no tf.data.Dataset, which {needed_by}'):
                input_fn(mode, {})
        else:
            assert input_fn(mode, {}) == ('features', 'labels')


@pytest.mark.parametrize('index, warnings', [(0, 1), (1, 0)])
def test_the_chief_says_that_batches_have_another_size_than_the_flag(caplog, index, warnings):
    job = Job(model_fn=lambda features, labels, mode: None, input_fn=lambda: tf.data.Dataset.range(9).batch(3))
    config = trainer_config.TrainerConfig(model_dir='', batch_size=4)
    cluster = tf_config.Cluster(worker=('a:1', 'b:1'))
    plan = planning.Plan(config, 'multi_worker_mirrored', cluster, tf_config.Task('worker', index), (), job)
    trainer.input_fn_of(plan, None)('train', {})
    assert ['or give --batch_size=3.' in text for text in caplog.messages] == [True] * warnings


@pytest.mark.parametrize('is_chief, reads, warns', [(True, False, True), (True, True, False), (False, False, False)])
def test_the_chief_says_that_the_data_of_a_resumed_run_begin_anew(caplog, is_chief, reads, warns):
    def input_fn(params):
        return tf.data.Dataset.range(9).skip(params['start_step'] if reads else 0).batch(params['batch_size'])

    plan = types.SimpleNamespace(
        config=types.SimpleNamespace(loop='custom_loop', batch_size=2),
        job=types.SimpleNamespace(input_fn=input_fn),
        is_chief=is_chief,
    )
    trainer.input_fn_of(plan, None)('train', {'start_step': 3, 'batch_size': 2})
    assert ('begin anew' in caplog.text) is warns
