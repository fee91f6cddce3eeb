"""How examples become batches. Knows nothing of clusters, strategies or loops."""

from estimator_trainer.data.pipeline import array_batches

__all__ = ['array_batches']
