"""How a feature column makes numbers, from the operations in its scope. Works on nodes and imports no TensorFlow."""

import re
from collections.abc import Iterable
from typing import Any

_LINEAR = re.compile(r'^linear/(?:.*/)?linear_model/(?P<column>[^/]+)/(?P<rest>.+)$')
_DEEP = re.compile(
    r'^dnn/input_from_feature_columns/(?:input_layer(?:_\d+)?/)?(?!input_layer)(?P<column>[^/]+)/(?P<rest>.+)$'
)
_OF_VARIABLES = re.compile(r'(?:^|/)(?:embedding_weights|weights|bias_weights|Initializer|kernel|bias)(?:/|$)')
_NO_COLUMN = re.compile(r'^(?:concat|zero_fraction|weighted_sum|weighted_sum_no_bias|bias_weights|bias)(?:_\d+)?$')
_CROSSES = ('SparseCross', 'SparseCrossV2', 'SparseCrossHashed', 'SparseFeatureCrossV2', 'SparseFeatureCross')
_LOOKUPS = ('LookupTableFind', 'LookupTableFindV2')
_HASHES = ('StringToHashBucketFast', 'StringToHashBucketStrong')
_SEGMENTS = ('SparseSegmentMean', 'SparseSegmentSum', 'SparseSegmentSqrtN')
_SPARSE = (*_SEGMENTS, 'SparseFillEmptyRows', 'OneHot', 'Gather', 'GatherV2', 'ResourceGather')


def of_nodes(nodes: Iterable[Any]) -> dict[tuple[str, str], str]:
    """(part, column) -> in words how it makes numbers, of the columns of a canned Estimator."""
    scopes: dict[tuple[str, str], list] = {}
    for node in nodes:
        if not node.name.startswith(('linear/', 'dnn/input_from_feature_columns/')):
            continue
        for part, pattern in (('linear', _LINEAR), ('dnn', _DEEP)):
            match = pattern.match(node.name)
            if match and not _OF_VARIABLES.search(match['rest']) and not _NO_COLUMN.match(match['column']):
                scopes.setdefault((part, match['column']), []).append(node)
    return {key: _words(members) for key, members in sorted(scopes.items())}


def are_numbered(columns: dict[tuple[str, str], str]) -> bool:
    """Whether the operations of every deep column are in a scope with `_1` behind the column's name."""
    deep = [name for part, name in columns if part == 'dnn']
    return bool(deep) and all(name.endswith('_1') for name in deep)


def without_numbers(columns: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """The columns of a class of TensorFlow 2. Its layer opens the scope of each deep column twice, first for variables,
    so that the operations of `age` are in `age_1`."""
    return {(part, re.sub(r'_1$', '', name) if part == 'dnn' else name): text for (part, name), text in columns.items()}


def _words(nodes: list) -> str:
    by_op: dict[str, Any] = {}
    for node in nodes:
        by_op.setdefault(node.op, node)
    cross = next((by_op[op] for op in _CROSSES if op in by_op), None)
    hashed = next((by_op[op] for op in _HASHES if op in by_op), None)
    if cross is not None:
        return f'crossed into {cross.attr["num_buckets"].i} buckets'
    if 'Bucketize' in by_op:
        borders = [f'{border:g}' for border in by_op['Bucketize'].attr['boundaries'].list.f]
        first = ', '.join(borders[:6]) + (f' and {len(borders) - 6} more' if len(borders) > 6 else '')
        return f'bucketized at {first}'
    if hashed is not None:
        return f'hashed into {hashed.attr["num_buckets"].i} buckets'
    if any(op in by_op for op in _LOOKUPS):
        return 'vocabulary'
    if any(op in by_op for op in _SPARSE):
        return 'categorical'
    return 'numeric'
