"""Texts of TensorFlow that say what an operation could not do, and what they mean for the job. Pure.

Each text was seen on TensorFlow 2.15 and 2.21.
"""

import re

_MEANINGS = (
    (
        re.compile(r'Key (\S+) not found in checkpoint'),
        'the variable {0} is not in the checkpoint that is restored: the model has changed since the checkpoint was '
        'saved. Use another --model_dir, or let the variable have its old name; warm_start_from takes up those '
        'variables that are there',
    ),
    (
        re.compile(r'Assign requires shapes of both tensors to match\. lhs shape= ?(\[.*?\]) rhs shape= ?(\[.*?\])'),
        'a variable has the shape {0} in the model, and {1} in the checkpoint that is restored: the model has changed '
        'since the checkpoint was saved. Use another --model_dir, or give the model its old sizes',
    ),
    (
        re.compile(r'Loss must be scalar, given: Tensor\(.*?shape=(\(.*?\)), '),
        'the loss of the model_fn has the shape {0}, and a loss is one number: give tf.reduce_mean(loss)',
    ),
    (
        re.compile(r'Input to reshape is a tensor with (\d+) values, but the requested shape has 1\b'),
        'a tensor of {0} values was to be one number. If it is the loss of the model_fn, give tf.reduce_mean(loss)',
    ),
    (
        re.compile(
            r'\[Labels must be <= n_classes - 1\].*?\[x \(.*?\) = \] \[(.*?)(?:\.\.\.)?\] \[y \(.*?\) = \] \[(\d+)\]'
        ),
        'a label is greater than n_classes - 1, which is {1}: the labels begin with {0}. Classes count from 0; give '
        'the Estimator more n_classes, or mend the labels',
    ),
    (
        re.compile(r'\[Labels must be >= 0\.? *\].*?\[x \(.*?\) = \] \[(.*?)(?:\.\.\.)?\]$', re.MULTILINE),
        'a label is negative, which a label that is not in the label_vocabulary becomes: the numbers of the labels '
        'begin with {0}. Add the missing label to label_vocabulary, or mend the labels',
    ),
    (
        re.compile(r'must be provided with type `tpu_config\.RunConfig`|params argument, required by TPUEstimator'),
        'a TPUEstimator is trained on a TPU only: let make_estimator give a tf.estimator.Estimator with the same '
        'model_fn, and the model_fn a tf.estimator.EstimatorSpec',
    ),
    (
        re.compile(r'not a tf\.keras\.optimizers\.Optimizer instance\. Given: <(?:[\w.]*\.)?(\w+) object'),
        'this canned Estimator of TensorFlow 2 takes no {0} of tf.compat.v1.train: give it the name of an optimizer, '
        'such as "Adam", or one of tf.keras.optimizers.legacy; or use the Estimator of the same name in '
        'tf.compat.v1.estimator',
    ),
)


def meaning_of(text: str) -> str:
    """What a text means, and what helps; '' if it is none of those above."""
    for pattern, meaning in _MEANINGS:
        match = pattern.search(text)
        if match:
            return meaning.format(*match.groups())
    return ''
