"""roles, optimizers, kinds, heads and columns: what names and shapes tell, and what they do not."""

import re

import pytest

from estimator_trainer.tools.inspection import kinds, roles
from estimator_trainer.tools.inspection.variables import Variable

WHY = 'a file says so'
_SUFFIX = '/.ATTRIBUTES/VARIABLE_VALUE'


def variables(*names):
    """`name` or `name:2x3`; a key of a tree of objects begins with `@`."""
    made = []
    for each in names:
        name, sizes = re.fullmatch(r'(.*?)(?::([\dx]+))?', each).groups()
        shape = tuple(map(int, sizes.split('x'))) if sizes else ()
        key = name[1:] + _SUFFIX if name.startswith('@') else ''
        made.append(Variable(name.removeprefix('@'), 'float32', shape, 4, key=key))
    return made


def facts(names, applied=None, values=None, head=None, **about):
    found = roles.roles(variables(*names))
    trained_by = roles.optimizers(found, values or {}, applied or {})
    weights = [each.variable for each in found if each.role == roles.WEIGHT]
    head = kinds.Head(head, WHY) if head else None
    return found, trained_by, kinds.kind(weights, trained_by, head, **about), weights


V1_COMBINED = [
    'global_step',
    'dnn/hiddenlayer_0/kernel:17x64', 'dnn/hiddenlayer_0/kernel/Adagrad:17x64',
    'dnn/hiddenlayer_1/kernel:64x32', 'dnn/hiddenlayer_1/kernel/Adagrad:64x32',
    'dnn/logits/bias:1', 'dnn/logits/bias/Adagrad:1',
    'dnn/input_from_feature_columns/input_layer/city_embedding/embedding_weights:100x8',
    'dnn/input_from_feature_columns/input_layer/city_embedding/embedding_weights/part_0/Adagrad:100x8',
    'dnn/input_from_feature_columns/input_layer/city_embedding/embedding_weights/part_1/Adagrad:100x8',
    'linear/linear_model/age_X_job/weights:100x1', 'linear/linear_model/age_X_job/weights/Ftrl:100x1',
    'linear/linear_model/age_X_job/weights/Ftrl_1:100x1',
    'linear/linear_model/bias_weights:1', 'linear/linear_model/bias_weights/Ftrl:1',
    'linear/linear_model/bias_weights/Ftrl_1:1',
]  # fmt: skip


def test_a_canned_estimator_of_tensorflow_1():
    found, trained_by, kind, weights = facts(V1_COMBINED, head=kinds.BINARY)
    assert (kind.name, kind.version, kind.parts, kind.classes) == (
        'DNNLinearCombinedClassifier', kinds.V1, ('linear', 'dnn'), 2
    )  # fmt: skip
    assert [(each.name, each.weights, each.slots) for each in trained_by] == [
        ('Adagrad', 4, ('Adagrad',)),  # the slots of two slices are one weight's
        ('Ftrl', 2, ('Ftrl', 'Ftrl_1')),
    ]
    assert kinds.hidden_units(weights) == [64, 32]
    by_names = {'linear column': ['age_X_job'], 'deep column': ['city_embedding']}
    assert kinds.columns(weights, kind, ()) == by_names
    assert kinds.columns(weights, kind, ['age_1'])['deep column'] == ['age_1', 'city_embedding']
    assert {each.role for each in found} == {roles.STEP, roles.WEIGHT, roles.SLOT}


@pytest.mark.parametrize(
    'name', ['signal_early_stopping/STOP', 'sync_rep_local_step', 'tpu_estimator/iterations_loop_var']
)
def test_what_a_hook_keeps_is_no_weight(name):
    found, _, kind, weights = facts([*V1_COMBINED, name], head=kinds.BINARY)
    assert (kind.family, kind.name) == (kinds.CANNED, 'DNNLinearCombinedClassifier')
    assert found[-1].role == roles.OTHER and name not in [weight.name for weight in weights]


@pytest.mark.parametrize(
    'head, name',
    [
        (kinds.MULTI_CLASS, 'DNNClassifier'),
        (kinds.REGRESSION, 'DNNRegressor'),
        (kinds.MULTI_LABEL, 'DNNEstimator'),
        (kinds.POISSON, 'DNNEstimator'),
        (None, 'DNNClassifier, DNNRegressor or DNNEstimator'),
    ],
)
def test_the_class_is_what_the_head_says_and_no_guess(head, name):
    kind = facts(['dnn/hiddenlayer_0/kernel:3x2', 'dnn/logits/bias:4'], head=head)[2]
    assert (kind.name, kind.version, kind.width) == (name, '', 4)
    assert 'No slots tell' in kind.why[-1]


def test_a_canned_estimator_of_tensorflow_2():
    names = ['linear/linear_model/a/weights:3x1', 'training/Ftrl/linear/linear_model/a/weights/accumulator:3x1',
             'training/Ftrl/linear/linear_model/a/weights/linear:3x1', 'training/Ftrl/learning_rate',
             'training/Ftrl/iter']  # fmt: skip
    values = {'training/Ftrl/learning_rate': 0.2, 'training/Ftrl/iter': 7.0}
    found, trained_by, kind, weights = facts(names, {'Ftrl': {'l1': (None,), 'learning_rate': (None,)}}, values)
    assert kind.version == kinds.V2
    assert trained_by[0].settings == {'learning_rate': (0.2,)}  # what the graph computes is what the variable holds
    assert [each.role for each in found] == [roles.WEIGHT, roles.SLOT, roles.SLOT, roles.SETTING, roles.SETTING]
    of_graph = ['age_1', 'city_embedding_1']  # the layer opens the scope of each deep column twice
    assert kinds.columns(weights, kind, of_graph)['deep column'] == ['age', 'city_embedding']


@pytest.mark.parametrize(
    'names, family',
    [
        (['linear/age/weight:1x1', 'linear/bias_weight:1'], kinds.CONTRIB),
        (['dnn/hiddenlayer_0/weights:3x2', 'dnn/logits/biases:1'], kinds.CONTRIB),
        (['baseline/bias:3'], kinds.CANNED),
        (['baseline/bias:3', 'mine/kernel:3x3'], kinds.CUSTOM),
        (['boosted_trees:0_stamp', 'boosted_trees:0_serialized'], kinds.TREES),
        (['rnn_model/logits/bias:1', 'rnn_model/rnn/lstm_cell/kernel:4x32'], kinds.RNN),
        (['clusters:3x2', 'initialized', 'Variable:3'], kinds.KMEANS),
        (['dense/kernel:3x2'], kinds.CUSTOM),
        (['clusters:3x2'], kinds.CUSTOM),
        (['linear/linear_model/a/weights:3x1', 'mine/kernel:3x3'], kinds.CUSTOM),
        (['global_step'], ''),
    ],
)
def test_families(names, family):
    assert facts(names)[2].family == family


def test_keras_is_told_by_its_folder_or_the_name_of_the_step():
    names = ['@layer_with_weights-0/kernel:3x2', '@estimator_global_step']
    keys = {each[1:] + _SUFFIX for each in names}
    assert facts(names, of_objects=True, keys=keys)[2].family == kinds.KERAS
    assert facts(names[:1], of_objects=True, keys=keys - {names[1][1:] + _SUFFIX})[2].family == kinds.OBJECTS
    assert facts(['dense/kernel:3x2'], has_keras_folder=True)[2].family == kinds.KERAS


@pytest.mark.parametrize(
    'slots, name',
    [
        (['w/Adam', 'w/Adam_1'], 'Adam'),
        (['w/Momentum'], 'Momentum'),
        (['train/w/Momentum'], 'Momentum'),
        (['w/RMSProp', 'w/RMSProp_1'], 'RMSProp'),
        (['w/MyOwn', 'w/MyOwn_1'], 'MyOwn'),
        (['w/adam_m', 'w/adam_v'], 'AdamWeightDecay or LAMB, both of which call their slots adam_m and adam_v'),
        (['w/lamb_m', 'w/lamb_v'], 'an optimizer with the slots lamb_m, lamb_v'),
        (['Adam/w/m', 'Adam/w/v'], 'Adam'),
        (['Adam/m/w', 'Adam/v/w'], 'Adam'),
        (['training_1/SGD/w/momentum'], 'SGD'),
    ],
)
def test_the_optimizer_by_its_slots(slots, name):
    found, trained_by, _, weights = facts(['w:3x2', *(f'{each}:3x2' for each in slots)])
    assert [each.name for each in trained_by] == [name]
    assert [each.weight for each in found[1:]] == ['w'] * len(slots) and len(weights) == 1


def test_the_optimizer_of_a_tree_of_objects():
    names = ['@model/w:3x2', '@model/w/.OPTIMIZER_SLOT/optimizer/m:3x2', '@model/w/.OPTIMIZER_SLOT/optimizer/v:3x2',
             '@optimizer/beta_1', '@optimizer/iter', '@global_step', '@save_counter']  # fmt: skip
    found, trained_by, _, weights = facts(names, values={'optimizer/beta_1': 0.9})
    assert [each.role for each in found] == [
        roles.WEIGHT, roles.SLOT, roles.SLOT, roles.SETTING, roles.SETTING, roles.STEP, roles.OTHER
    ]  # fmt: skip
    assert (trained_by[0].name, trained_by[0].settings) == ('Adam, AdamW, Adamax or Nadam', {'beta_1': (0.9,)})
    named = Variable('Adam/model/w/m', 'float32', (3, 2), 4, key='model/w/.OPTIMIZER_SLOT/optimizer/m' + _SUFFIX)
    told = roles.optimizers(roles.roles([variables('@model/w:3x2')[0], named]), {}, {})
    assert [each.name for each in told] == ['Adam']


def test_without_slots_the_graph_tells_the_optimizer():
    assert [each.name for each in facts(['w:3'], {'SGD': {'learning_rate': (0.1,)}})[1]] == ['SGD']
    assert facts(['w:3'])[1] == []


def test_averages_loss_scales_and_powers_are_no_weights():
    names = ['w:3', 'w/ExponentialMovingAverage:3', 'bn/moving_mean:3', 'bn/moving_mean/biased:3']
    names += ['bn/moving_mean/local_step', 'current_loss_scale', 'good_steps', 'beta1_power', 'train/beta2_power_1']
    assert [each.role for each in facts(names)[0]] == [
        roles.WEIGHT, roles.SHADOW, roles.MOVING, roles.OTHER, roles.OTHER, roles.SCALE, roles.SCALE, roles.SETTING,
        roles.SETTING,
    ]  # fmt: skip


@pytest.mark.parametrize(
    'name', ['bn/moving_variance:3', 'moving_mean_1:3', '@model/bn/moving_mean:3', '@bn/moving_variance:3']
)
def test_averages_of_batch_normalization(name):
    assert [each.role for each in facts(['w:3', name])[0]] == [roles.WEIGHT, roles.MOVING]


def test_what_is_trained_is_a_weight_whatever_its_name_is():
    names = ['bn/moving_mean:3', 'bn/moving_mean/Adam:3', 'moving_means:3', 'moving_mean/kernel:3']
    assert [each.role for each in facts(names)[0]] == [roles.WEIGHT, roles.SLOT, roles.WEIGHT, roles.WEIGHT]


def test_variables_that_only_look_like_slots_are_weights():
    names = ['w:3x2', 'w/Adam:3', 'tower/w:3x2', 'v/m:3x2', 'Adam/w/kernel:3x2', 'momentum', 'u:2']
    assert {each.role for each in facts(names)[0]} == {roles.WEIGHT}


@pytest.mark.parametrize(
    'operations, head',
    [
        (['predictions/logistic', 'predictions/class_ids', 'logistic_loss/sub'], kinds.BINARY),
        (['losses/sparse_softmax_cross_entropy_loss/x'], kinds.MULTI_CLASS),
        (['predictions/probabilities'], kinds.MULTI_LABEL),
        (['predictions/Exp', 'losses/call_loss_fn'], kinds.POISSON),
        (['mean_squared_error/Mul'], kinds.REGRESSION),
        (['losses/mean_squared_error/Mul'], kinds.REGRESSION),
        (['weighted_loss/Sum'], ''),
    ],
)
def test_the_head_by_its_operations(operations, head):
    matches = [kinds.IN_HEAD.search(f'dnn/head/{name}') for name in operations]
    assert kinds.head_of({match[1] for match in matches}) == head


def test_a_model_of_its_own_has_no_columns():
    weights, kind = facts(['linear/kernel:2x2'])[3], kinds.Kind(kinds.CUSTOM, '')
    assert kinds.columns(weights, kind, ['age']) == {}
