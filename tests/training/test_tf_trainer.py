"""What make_evaluator makes of a setup."""

import types

import pytest

from estimator_trainer.evaluation import exact_evaluation
from estimator_trainer.training import trainer


@pytest.mark.parametrize(
    'dataset, same_eval_data, keeps', [(None, False, False), (None, True, True), ('a', False, True)]
)
def test_the_graph_of_evaluations_is_kept_where_their_data_are_the_same(monkeypatch, dataset, same_eval_data, keeps):
    estimator = types.SimpleNamespace(export_saved_model=None)
    monkeypatch.setattr(exact_evaluation, 'estimator_of', lambda *args: estimator)
    monkeypatch.setattr(exact_evaluation, 'input_fn', lambda *args: None)
    config = types.SimpleNamespace(
        loop='estimator', eval_steps=None, eval_strategy='none', num_replicas=1, batch_size=8
    )
    setup = types.SimpleNamespace(
        plan=types.SimpleNamespace(config=config),
        params=types.SimpleNamespace(num_examples=100),
        input_fn=None,
        job=types.SimpleNamespace(same_eval_data=same_eval_data),
        dataset=dataset,
        run_configs=types.SimpleNamespace(local=None),
    )
    assert trainer.make_evaluator(setup)._keeps == keeps
