"""The head of a canned Estimator as plain JSON."""

from estimator_trainer.compat.patches import canned_estimators
from estimator_trainer.tools.migrate.canned.columns import Unsupported

_HEADS = {
    'BinaryClassHead': 'binary',
    '_BinaryLogisticHeadWithSigmoidCrossEntropyLoss': 'binary',
    'MultiClassHead': 'multi_class',
    '_MultiClassHeadWithSoftmaxCrossEntropyLoss': 'multi_class',
    'MultiLabelHead': 'multi_label',
    '_MultiLabelHead': 'multi_label',
    'RegressionHead': 'regression',
    '_RegressionHeadWithMeanSquaredErrorLoss': 'regression',
    'PoissonRegressionHead': 'poisson',
    'LogisticRegressionHead': 'logistic',
}
_REDUCTIONS = {  # of tf.compat.v1.losses
    'weighted_sum': 'sum',
    'weighted_mean': 'mean',
    'weighted_sum_over_batch_size': 'sum_over_batch_size',
    'weighted_sum_by_nonzero_weights': 'sum_over_nonzero_weights',
}


def description(head) -> dict:
    """Raises Unsupported for a head, a loss or a weight column that has no equal in Keras 3."""
    kind = type(head).__name__
    if kind not in _HEADS:
        raise Unsupported(f'the head {kind}')
    if canned_estimators.head_setting(head, 'loss_fn') is not None and kind not in (
        'PoissonRegressionHead',
        'LogisticRegressionHead',
    ):
        raise Unsupported(f'the loss_fn of {kind}')
    name = _HEADS[kind]
    if name == 'regression' and canned_estimators.head_setting(head, 'inverse_link_fn') is not None:
        raise Unsupported(f'the inverse_link_fn of {kind}')
    if name == 'poisson' and not canned_estimators.head_setting(head, 'compute_full_loss'):
        name = 'poisson_without_full_loss'
    reduction = str(canned_estimators.head_setting(head, 'loss_reduction', 'sum_over_batch_size'))
    weight = canned_estimators.head_setting(head, 'weight_column')
    if weight is not None and not isinstance(weight, str):
        if getattr(weight, 'normalizer_fn', None):
            raise Unsupported('a weight_column with a normalizer_fn')
        if tuple(weight.shape) != (1,):
            raise Unsupported(f'a weight_column of shape {tuple(weight.shape)}; a weight for each example, which')
        weight = weight.key
    vocabulary = canned_estimators.head_setting(head, 'label_vocabulary')
    return {
        'kind': name,
        'n_classes': {'binary': 2}.get(name) or canned_estimators.head_setting(head, 'n_classes'),
        'label_vocabulary': [word if isinstance(word, str) else word.decode() for word in vocabulary or ()] or None,
        'weight_column': weight,
        'loss_reduction': _REDUCTIONS.get(reduction, reduction),
        'version': 1 if kind.startswith('_') else 2,
    }
