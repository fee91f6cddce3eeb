"""The images of a data set that the last checkpoint takes for another class: `eval/wrong.json`, for report.html."""

import base64
import functools
import logging
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import tensorflow as tf

from estimator_trainer.evaluation.evaluation import Evaluator
from estimator_trainer.jobs import job_data
from estimator_trainer.run_dir import file_names, protocol

if TYPE_CHECKING:
    from estimator_trainer.data.sources import ImageDataset

_log = logging.getLogger('estimator_trainer')
MOST_EXAMPLES = 20_000  # of an evaluation: each of them is computed once more
MOST_SHOWN = 24  # of them on the page


def writer(dataset: 'job_data.Dataset | None', model_dir: str) -> Callable[[Evaluator, str, int], None] | None:
    """(evaluator, checkpoint, step) -> writes the wrong answers of a checkpoint; None: the examples are no images."""
    if dataset is None or dataset.image_shape is None:
        return None
    return functools.partial(write, cast('ImageDataset', dataset), model_dir)


def write(dataset: 'ImageDataset', model_dir: str, evaluator: Evaluator, checkpoint: str, step: int) -> None:
    """Writes the wrong answers of a checkpoint, those first of which the model is most certain.

    Nothing is written for a data set of more than MOST_EXAMPLES, and for a job whose predictions have no `classes`.
    What fails here costs the page a section, and nothing else.

    Args:
    """
    if dataset.num_eval > MOST_EXAMPLES or not tf.executing_eagerly():
        return
    try:
        answers = _wrong(dataset.eval_examples(), evaluator.predictions(checkpoint), dataset.class_name)
        if answers is not None:
            protocol.write_json(os.path.join(model_dir, file_names.WRONG_ANSWERS), {'step': step, **answers})
    except Exception as error:  # of a model_fn that is not made for predictions, or of a full disk
        _log.info('the page shows no wrong answers: %s: %s', type(error).__name__, str(error).partition('\n')[0])


def _wrong(
    examples: Iterable[tuple[np.ndarray, np.ndarray]],
    predictions: Iterable[dict[str, Any]],
    class_name: Callable[[int], str],
) -> dict[str, Any] | None:
    examples, evaluated, wrong = iter(examples), 0, []
    for batch in predictions:
        if not isinstance(batch, dict) or np.ndim(batch.get('classes', 0)) != 1:
            return None
        certainties = batch.get('probabilities')
        for row, answer in enumerate(batch['classes']):
            image, label = next(examples)
            evaluated += 1
            if int(answer) != int(label):
                certainty = None if certainties is None else round(float(np.max(certainties[row])), 4)
                wrong.append((certainty, evaluated - 1, image, int(label), int(answer)))
    most_certain = sorted(wrong, key=lambda each: each[0] or 0.0, reverse=True)[:MOST_SHOWN]
    return {
        'evaluated': evaluated,
        'wrong': len(wrong),
        'examples': [
            {
                'position': position,
                'label': class_name(label),
                'answer': class_name(answer),
                'probability': certainty,
                'png': base64.b64encode(tf.io.encode_png(image).numpy()).decode(),
            }
            for certainty, position, image, label, answer in most_certain
        ],
    }
