"""The tutorial's CNN for handwritten digits: one convolution, about 347,000 weights."""

from estimator_trainer.jobs.image_classifier import PARAMS, PARTS, check, make_model
from estimator_trainer.jobs.job import Job

job = Job(
    make_model=make_model('mnist'),
    parts=PARTS,
    params={**PARAMS, 'filters': [32]},
    check=check,
    best_metric='accuracy',
    best_mode='max',
)
