"""Reads, checks and writes TF_CONFIG, which says which tasks a cluster has and which of them this process is.

Never imports TensorFlow.
"""

from tf_config.cluster import (
    ROLES,
    STRATEGIES,
    Cluster,
    Task,
    for_program,
    for_tensorflow,
    make,
    number_of_tasks,
    render,
)
from tf_config.lint import Finding, Parsed, TfConfigError, auto_strategy, check, parse
from tf_config.resolvers import (
    SOURCES,
    Layout,
    ResolverError,
    from_environment,
    read_layout,
    resolve,
    started_with_others,
)

__all__ = [
    'ROLES',
    'SOURCES',
    'STRATEGIES',
    'Cluster',
    'Finding',
    'Layout',
    'Parsed',
    'ResolverError',
    'Task',
    'TfConfigError',
    'auto_strategy',
    'check',
    'for_program',
    'for_tensorflow',
    'from_environment',
    'make',
    'number_of_tasks',
    'parse',
    'read_layout',
    'render',
    'resolve',
    'started_with_others',
]
