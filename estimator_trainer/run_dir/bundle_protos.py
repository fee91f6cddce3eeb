"""The messages in the index of a checkpoint, as tensorflow/core/protobuf/tensor_bundle.proto describes them."""

from estimator_trainer.run_dir.protos import FIXED32, INT32, INT64, MANY, ONE, classes

_CLASSES = classes(
    'estimator_trainer.bundle',
    {
        'Dim': [('size', 1, INT64, ONE)],
        'Shape': [('dim', 2, 'Dim', MANY)],
        'Extent': [('start', 1, INT64, ONE), ('length', 2, INT64, ONE)],  # `length` may be there or not
        'Slice': [('extent', 1, 'Extent', MANY)],
        'BundleHeader': [('num_shards', 1, INT32, ONE)],
        'BundleEntry': [
            ('dtype', 1, INT32, ONE),  # a number of the enumeration DataType
            ('shape', 2, 'Shape', ONE),
            ('shard_id', 3, INT32, ONE),
            ('offset', 4, INT64, ONE),
            ('size', 5, INT64, ONE),
            ('crc32c', 6, FIXED32, ONE),  # masked, of the bytes
            ('slices', 7, 'Slice', MANY),
        ],
    },
)
BundleHeader, BundleEntry = _CLASSES['BundleHeader'], _CLASSES['BundleEntry']
