"""Whether a program needs `compat run --tf1`: what `doctor PROGRAM` says. Imports no TensorFlow."""

import ast
import importlib.metadata
import importlib.util
import itertools
import os
from collections.abc import Iterator, Sequence

from estimator_trainer.compat.tf1_names import contrib
from estimator_trainer.tools.assess import findings, source_files
from estimator_trainer.tools.assess.knowledge import CONTRIB, RUNS

_MOST = 5  # lines that are named


def of(assessment: findings.Assessment) -> list[findings.CodeFinding]:
    """The lines that only TensorFlow 1 runs as they are."""
    return [
        each
        for each in assessment.findings
        if each.state != RUNS and (each.old_import or each.name.startswith(CONTRIB))
    ]


def first(path: str) -> Iterator[str]:
    """'tf.app.run (line 3)', the first name of TensorFlow 1 in a program, if it has one."""
    for each in of(findings.assess([source_files.read(path)]))[:1]:
        yield f'{each.name} (line {each.line})'


def advice(paths: Sequence[str]) -> Iterator[str]:
    """Lines for people on the program or folder: how to run it, and what cannot run.

    Raises:
        UsageError: there is no such file or folder.
    """
    sources = [source_files.read(path) for path in source_files.find(paths)]
    old, shown = of(findings.assess(sources)), ', '.join(paths)
    program = paths[0] if len(paths) == 1 and os.path.isfile(paths[0]) else 'PROGRAM'
    unread = source_files.imported_beside(sources)
    if unread:
        more = f' and {len(unread) - _MOST} more' if len(unread) > _MOST else ''
        yield f'not read: {", ".join(unread[:_MOST])}{more}, which it imports: name them too, or the folder'
    for place in itertools.islice(_imports_of_keras(sources), 1):
        yield (
            f'note: {place}: `import keras` gives Keras 3 here, and Estimators and tf.keras are of Keras 2: if it is '
            'written for Keras 2, write `from tensorflow import keras`, and `from tensorflow.keras` for `from keras`'
        )
    if not old:
        yield f'program: {shown} uses no names of TensorFlow 1: python -m estimator_trainer.compat run {program}'
        return
    yield f'program: {shown} is written for TensorFlow 1: python -m estimator_trainer.compat run --tf1 {program}'
    for each in old[:_MOST]:
        yield f'  {each.place}: {each.name}'
    if len(old) > _MOST:
        yield f'  and {len(old) - _MOST} more'
    first: dict[str, str] = {}
    for each in old:
        if each.name.startswith(CONTRIB):
            first.setdefault(each.name, each.place)
    listed = [name for name in first if contrib.is_listed(name[len(CONTRIB) :])]
    of_slim = next((name for name in listed if contrib.is_in_slim(name[len(CONTRIB) :])), None)
    if of_slim and importlib.util.find_spec('tf_slim') is None:
        yield (
            f'problem: {first[of_slim]}: {of_slim} is in the package tf-slim, which is not installed: '
            'pip install tf-slim'
        )
    for name, place in first.items():
        if name not in listed:
            yield f'cannot work: {place}: {contrib.absent(name[len(CONTRIB) :])}'


def _imports_of_keras(sources: Sequence[source_files.SourceFile]) -> Iterator[str]:
    """Where the package keras is imported by its own name, if it is Keras 3."""
    own = {os.path.splitext(os.path.basename(source.path))[0] for source in sources}
    if 'keras' in own or not _has_keras_3():
        return
    for source in sources:
        for node in ast.walk(source.tree) if source.tree else ():
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or '']
            if any(name.partition('.')[0] == 'keras' for name in names):
                yield source.place(node.lineno)


def _has_keras_3() -> bool:
    try:
        return int(importlib.metadata.version('keras').partition('.')[0]) >= 3
    except importlib.metadata.PackageNotFoundError:
        return False
