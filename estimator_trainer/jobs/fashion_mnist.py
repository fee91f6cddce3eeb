"""The tutorial's CNN for Fashion-MNIST: two convolutions, about 122,000 weights."""

from estimator_trainer.jobs.image_classifier import PARAMS, PARTS, check, make_model
from estimator_trainer.jobs.job import Job

job = Job(
    make_model=make_model('fashion_mnist'),
    parts=PARTS,
    params={**PARAMS, 'filters': [32, 64]},
    check=check,
    best_metric='accuracy',
    best_mode='max',
)
