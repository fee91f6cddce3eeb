"""compat.tf1_names.version_rule: which module means TensorFlow 1."""

import importlib.metadata
import os
import sysconfig

import pytest

from estimator_trainer.compat.tf1_names import version_rule

LIBRARIES = sysconfig.get_path('purelib')


@pytest.mark.parametrize(
    'name, path, tf1',
    [
        ('__main__', '/home/me/train.py', True),
        ('__main__', None, True),  # python -c
        ('models.dnn', '/home/me/models/dnn.py', True),
        ('mylib', '/home/me/mylib/__init__.py', False),  # --tf2-packages
        ('adanet.core', f'{LIBRARIES}/adanet/core.py', True),  # --tf1-packages
        ('tf_keras.models', f'{LIBRARIES}/tf_keras/models.py', False),
        ('vendored', '/usr/lib/python3/dist-packages/vendored.py', False),
        ('runpy', f'{sysconfig.get_path("stdlib")}/runpy.py', False),
        ('estimator_trainer.jobs', '/home/me/estimator_trainer/jobs.py', False),
        ('estimator_recorder.exports', '/home/me/compat/recorder/estimator_recorder/exports.py', False),  # of `verify`
        ('made_up', None, False),  # exec'd by a library
        ('__main__', f'{LIBRARIES}/bert/run.py', True),  # python -m bert.run
    ],
)
def test_rule(name, path, tf1):
    rule = version_rule.VersionRule(tf1=frozenset(['adanet']), tf2=frozenset(['mylib']))
    assert rule.means_tf1({'__name__': name, '__file__': path}) == tf1
    assert version_rule.VersionRule.parsed(str(rule)) == rule


def test_no_globals():
    assert not version_rule.VersionRule().means_tf1(None)


@pytest.mark.parametrize(
    'requires, tf1',
    [
        (['tensorflow==1.15.*'], True),
        (['tensorflow>=1.4,<2'], True),
        (['six', 'tensorflow-gpu<1.16'], True),
        (['tensorflow>=1.15'], False),
        (['tensorflow'], False),
        (['tensorflow<2; extra == "old"'], False),
        (None, False),
    ],
)
def test_what_an_installed_package_asks_for(requires, tf1, monkeypatch):
    monkeypatch.setattr(version_rule, 'distributions', lambda: {'bert': ['bert-tensorflow']})
    monkeypatch.setattr(importlib.metadata, 'requires', {'bert-tensorflow': requires}.get)
    assert version_rule.asks_for_tf1('bert') == tf1
    assert not version_rule.asks_for_tf1('other')


def test_what_is_said():
    said = version_rule.VersionRule(frozenset(['b', 'a']), frozenset(['c'])).described()
    assert said.endswith('; TF 1 for a, b in any case; TF 2 for c in any case')
    assert os.linesep not in said
