"""Which size a data set gives to its batches.

Touches: _batch_size, _input_dataset and _dataset of data sets, and the classes UnaryUnchangedStructureDataset and
  DatasetV1Adapter in tensorflow.python.data.ops.dataset_ops
Without it: nobody is warned of an input_fn whose batches have another size than --batch_size
For: the trainer
"""

import tensorflow as tf

from estimator_trainer.compat import lacks


def batch_size(dataset: tf.data.Dataset) -> int | None:
    """What `batch` or `padded_batch` was given, if it has made the elements of the data set; None: something else has.

    What only repeats, leaves out or reorders elements, or reads them ahead, may follow.
    """
    with lacks.or_without():
        from tensorflow.python.data.ops import dataset_ops

        passing_on, adapter = dataset_ops.UnaryUnchangedStructureDataset, dataset_ops.DatasetV1Adapter
        while isinstance(dataset, (passing_on, adapter)):
            dataset = dataset._dataset if isinstance(dataset, adapter) else dataset._input_dataset
        size = tf.get_static_value(getattr(dataset, '_batch_size', None))
        return None if size is None else int(size)
    return None
