"""The Keras 3 model of a description, where features and columns have names of its layers."""

import os
import sys

import numpy as np
import pytest

import tests.tools.migrate.owned_modules  # noqa: F401
from estimator_trainer.tools.migrate.canned import in_keras_3

sys.path.append(os.path.dirname(in_keras_3.__file__))

import model as models  # noqa: E402

NUMBER = dict(dtype='float32', shape=[1], sparse=False, crossed=False, parsed=dict(dtype='float32', shape=[1]))


def columns(*names):
    """Numbers that have the names of their features."""
    return [
        {
            'name': name,
            'weights': f'linear/linear_model/{name}/weights',
            'column': dict(kind='numeric', key=name, shape=[1], normalizer=None),
        }
        for name in names
    ]


def deep(*names):
    return dict(columns=columns(*names), hidden_units=[3], activation='relu', dropout=None, batch_norm=False)


def linear(*names):
    return dict(columns=columns(*names), combiner='sum', bias='linear/linear_model/bias_weights')


@pytest.mark.parametrize(
    'parts',
    [
        dict(deep=deep('input', 'logits', 'hiddenlayer_0', 'head')),
        dict(linear=linear('sum', 'a b', 'a_b', 'head')),
        dict(linear=linear('logits', 'head', 'linear_sum'), deep=deep('logits', 'dnn_input', 'input')),
        dict(baseline='baseline/bias', features=['baseline']),
    ],
    ids=['deep', 'linear', 'both', 'baseline'],
)
def test_names_of_layers_are_free_for_columns(parts):
    described = {'linear': None, 'deep': None, 'baseline': None, **parts}
    read = [one['name'] for part in (described['linear'], described['deep']) if part for one in part['columns']]
    names = list(dict.fromkeys(parts.get('features', read)))
    head = dict(kind='regression', n_classes=None, label_vocabulary=None)
    built = models.Built({**described, 'units': 1, 'head': head, 'features': dict.fromkeys(names, NUMBER)})
    variables = list(built.pairs.values())
    assert len({id(each) for each in variables}) == len(variables) == len(built.model.variables)
    for number, variable in enumerate(variables):
        variable.assign(np.full(variable.shape, 1 + number))
    batch = {name: np.full([2, 1], 2.0**number, np.float32) for number, name in enumerate(names)}
    by_name = {name: float(np.ravel(each)[0]) for name, each in built.pairs.items()}
    expected = by_name.get('baseline/bias', 0.0)
    if part := described['linear']:
        expected += sum(by_name[one['weights']] * batch[one['name']][0, 0] for one in part['columns'])
        expected += by_name[part['bias']]
    if part := described['deep']:
        hidden = sum(batch[one['name']][0, 0] for one in part['columns']) * by_name['dnn/hiddenlayer_0/kernel']
        hidden += by_name['dnn/hiddenlayer_0/bias']
        expected += 3 * hidden * by_name['dnn/logits/kernel'] + by_name['dnn/logits/bias']
    for model in (built.serving, built.on_examples):
        assert np.ravel(model(batch)['predictions']).tolist() == [expected] * 2
