"""compat.tf1_names.contrib.hparams: what TensorFlow 1.15 documents of tf.contrib.training.HParams."""

import pytest

from estimator_trainer.compat.tf1_names.contrib.hparams import HParams


@pytest.fixture
def hparams():
    return HParams(rate=0.1, layers=[3, 4], name='cnn', deep=True, steps=10, nothing=None)


def test_values(hparams):
    assert hparams.rate == 0.1 and hparams.layers == [3, 4]
    assert hparams.values() == dict(rate=0.1, layers=[3, 4], name='cnn', deep=True, steps=10, nothing=None)
    assert 'rate' in hparams and 'speed' not in hparams
    assert hparams.get('speed', 7) == 7 and hparams.get('steps', 7) == 10


@pytest.mark.parametrize(
    'text, changed',
    [
        ('', {}),
        ('rate=2', {'rate': 2.0}),
        ('rate=1e-3,steps=5', {'rate': 0.001, 'steps': 5}),
        (' name = a b , deep=false', {'name': 'a b', 'deep': False}),
        ('layers=[5,6,7]', {'layers': [5, 6, 7]}),
        ('layers=[5 6 7],steps=1', {'layers': [5, 6, 7], 'steps': 1}),
        ('layers=[ 5,  6 ,7 ]', {'layers': [5, 6, 7]}),
        ('layers[1]=9', {'layers': [3, 9]}),
        ('layers[ 1 ]=9', {'layers': [3, 9]}),
        ('layers[0]=8,layers[1]=9', {'layers': [8, 9]}),
        ('deep=1', {'deep': True}),
        ('deep=2', {'deep': True}),
        ('deep=0', {'deep': False}),
    ],
)
def test_parse(hparams, text, changed):
    before = hparams.values()
    assert hparams.parse(text) is hparams
    assert hparams.values() == {**before, **changed}


@pytest.mark.parametrize(
    'text, said',
    [
        ('speed=1', 'Unknown hyperparameter: speed'),
        ('steps=1.5', "'steps' of type int from '1.5'"),
        ('deep=perhaps', "'deep' of type bool"),
        ('layers=3', 'Must pass a list'),
        ('rate=[1]', 'Must not pass a list'),
        ('steps=1,steps=2', 'Multiple assignments'),
        ('layers=[1,2],layers[1]=2', 'Multiple assignments'),
        ('layers[1]=2,layers=[1,2]', 'Multiple assignments'),
        ('rate', 'Malformed'),
        ('rate[0]=1', 'is not a list'),
    ],
)
def test_what_cannot_be_parsed(hparams, text, said):
    before = hparams.values()
    with pytest.raises(ValueError) as error:
        hparams.parse(text)
    assert said in str(error.value)
    assert 'Multiple' in said or hparams.values() == before


def test_types_stay(hparams):
    hparams.set_hparam('rate', 3)
    assert hparams.rate == 3.0 and isinstance(hparams.rate, float)
    for name, value in (('steps', 1.5), ('steps', True), ('name', 1), ('deep', 1), ('layers', 3), ('steps', [1])):
        with pytest.raises(ValueError):
            hparams.set_hparam(name, value)
    with pytest.raises(KeyError):
        hparams.set_hparam('speed', 1)


def test_names_are_taken_once(hparams):
    for name in ('rate', 'parse'):
        with pytest.raises(ValueError, match='reserved'):
            hparams.add_hparam(name, 1)
    with pytest.raises(ValueError, match='empty'):
        hparams.add_hparam('more', [])
    hparams.del_hparam('rate')
    assert 'rate' not in hparams and not hasattr(hparams, 'rate')


def test_json(hparams):
    text = hparams.to_json(sort_keys=True)
    other = HParams(rate=0.0, layers=[0], name='', deep=False, steps=0, nothing=1)
    assert other.parse_json(text).values() == hparams.values()
