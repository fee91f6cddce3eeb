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
