"""The messages of a profile, as tsl/profiler/protobuf/xplane.proto describes them."""

from estimator_trainer.run_dir.protos import DOUBLE, INT64, MANY, ONE, STRING, UINT64, classes

_CLASSES = classes(
    'estimator_trainer.xplane',
    {
        'XSpace': [('planes', 1, 'XPlane', MANY)],
        'XPlane': [
            ('name', 2, STRING, ONE),
            ('lines', 3, 'XLine', MANY),
            ('event_metadata', 4, 'EventMetadataEntry', MANY),  # a map
            ('stat_metadata', 5, 'StatMetadataEntry', MANY),
        ],
        'EventMetadataEntry': [('key', 1, INT64, ONE), ('value', 2, 'Metadata', ONE)],
        'StatMetadataEntry': [('key', 1, INT64, ONE), ('value', 2, 'Metadata', ONE)],
        'Metadata': [('name', 2, STRING, ONE)],
        'XLine': [('name', 2, STRING, ONE), ('timestamp_ns', 3, INT64, ONE), ('events', 4, 'XEvent', MANY)],
        'XEvent': [
            ('metadata_id', 1, INT64, ONE),
            ('offset_ps', 2, INT64, ONE),
            ('duration_ps', 3, INT64, ONE),
            ('stats', 4, 'XStat', MANY),
        ],
        'XStat': [
            ('metadata_id', 1, INT64, ONE),
            ('double_value', 2, DOUBLE, ONE),
            ('uint64_value', 3, UINT64, ONE),
            ('int64_value', 4, INT64, ONE),
            ('str_value', 5, STRING, ONE),
            ('ref_value', 7, UINT64, ONE),  # the number of a stat_metadata whose name is the value
        ],
    },
)
XSpace = _CLASSES['XSpace']
