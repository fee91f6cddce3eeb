"""What the name of a metric says."""

import pytest

from estimator_trainer.jobs import metric_names


@pytest.mark.parametrize(
    'name, mode',
    [
        ('loss', 'min'),
        ('average_loss', 'min'),
        ('head_1/loss', 'min'),
        ('mean_absolute_error', 'min'),
        ('accuracy', 'max'),
        ('top_5_accuracy', 'max'),
        ('Precision', 'max'),
        ('auc_precision_recall', 'max'),
        ('recall@0.5', 'max'),
        ('negative_loss', None),
        ('loss_of_accuracy', None),
        ('glossary', None),
        ('acc', None),
        ('', None),
    ],
)
def test_whether_lower_or_higher_is_better(name, mode):
    assert metric_names.known_mode(name) == mode


@pytest.mark.parametrize('name, meant', [('acc', 'accuracy'), ('los', 'loss'), ('aucc', 'auc'), ('x', '')])
def test_the_nearest_name(name, meant):
    assert metric_names.nearest(name, ['loss', 'accuracy', 'auc']) == (f' (did you mean {meant}?)' if meant else '')
