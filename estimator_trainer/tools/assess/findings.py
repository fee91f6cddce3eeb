"""What an assessment finds: each use of a name that the table knows, with its state in this program."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from estimator_trainer.tools.assess import knowledge, source_files, tf_names, uses
from estimator_trainer.tools.assess.knowledge import BLOCKS, NEEDS, OTHER, RUNS, TF1, KnowledgeEntry
from estimator_trainer.tools.assess.source_files import SourceFile
from estimator_trainer.tools.assess.uses import Use

_DEEPEST = 10_000  # calls within each other
STATES = (BLOCKS, NEEDS, RUNS)
# A line, a part of some lines that is written anew, a design that changes. Points compare programs; they are no hours.
POINTS = {'none': 0, 'small': 1, 'medium': 3, 'large': 8}
OLD_IMPORT = 'write `import tensorflow.compat.v1 as tf`, or tf.compat.v1 before the name'
GUARDED = 'may be missing: the program catches the error'
OF_TPU = 'stands behind `if use_tpu:`; Estimators train here with use_tpu=False only'
_SIZE = '.value of a size'
_OLD_SIZES = ('tf.disable_v2_behavior', 'tf.disable_v2_tensorshape')
_SHARED = 'tf.feature_column.shared_embeddings'
_NEW_SUMMARIES = ('tf.summary.create_file_writer', 'tf.summary.create_noop_writer')


class CodeFinding(NamedTuple):
    """A line of a program, and what the table says of it.

    Attributes:
        path, place, line: where; `place` is what a reader is shown.
        name: as the program uses it, without compat.v1.
        state: RUNS, NEEDS or BLOCKS.
        here: what to do so that it runs here; '' where nothing is to be done.
        entry: of the table.
        old_import: one changed import mends it, and all others of the file: `import tensorflow.compat.v1 as tf`.
        with_tf1: it needs a change or blocks, and runs as it is under `compat run --tf1`.
    """

    path: str
    place: str
    line: int
    name: str
    state: str
    here: str
    entry: KnowledgeEntry
    old_import: bool = False
    with_tf1: bool = False


class Assessment(NamedTuple):
    """The findings, by path and line; `other` counts the uses of names that run as they are and stay in Keras 3."""

    files: int
    without_tensorflow: int
    findings: tuple[CodeFinding, ...]
    other: int

    def having(self, state: str) -> list[CodeFinding]:
        return [finding for finding in self.findings if finding.state == state]

    def left_with_tf1(self, state: str) -> list[CodeFinding]:
        """Those that have this state under `compat run --tf1`, too."""
        return [finding for finding in self.having(state) if not finding.with_tf1]

    @property
    def of_tf1(self) -> bool:
        """Whether `compat run --tf1` runs lines of the program that need a change, or block, without it."""
        return any(finding.with_tf1 for finding in self.findings)

    @property
    def state(self) -> str:
        """The worst state of a line, where the program runs with --tf1 if that helps."""
        return next((state for state in (BLOCKS, NEEDS) if self.left_with_tf1(state)), RUNS)

    @property
    def runs_with_tf1(self) -> bool:
        """Whether `compat run --tf1` runs the program as it is, and only that does."""
        return self.of_tf1 and not self.lines_with_tf1

    @property
    def lines_to_change(self) -> int:
        """Lines that need something or block here; a file's old names count once, for its import."""
        changed = [finding for finding in self.findings if finding.state != RUNS]
        return len({(finding.path, 0 if finding.old_import else finding.line) for finding in changed})

    @property
    def lines_with_tf1(self) -> int:
        """The same under `compat run --tf1`."""
        left = self.left_with_tf1(NEEDS) + self.left_with_tf1(BLOCKS)
        return len({(finding.path, finding.line) for finding in left})

    @property
    def points(self) -> int:
        """The effort of moving to Keras 3: each section of the table counts once in a file, however often it occurs."""
        return sum(POINTS[entry.effort] for _, entry in {(finding.path, finding.entry) for finding in self.findings})


class _Judged(NamedTuple):
    name: str
    state: str
    here: str
    entry: KnowledgeEntry
    old_import: bool = False


class _Program(NamedTuple):
    """What the lines of a program decide for each other.

    Attributes:
        v1: the file imports tensorflow.compat.v1.
        old_sizes: sizes of tensors are TensorFlow 1's: some file calls disable_v2_behavior.
        new_summaries: summaries are TensorFlow 2's: some file makes a writer for them.
        trains_shared: no file uses an Estimator that does not train shared embeddings.
    """

    v1: bool
    old_sizes: bool
    new_summaries: bool
    trains_shared: bool


def assess(sources: Sequence[SourceFile]) -> Assessment:
    """Assesses files that belong together."""
    packages = sorted({*knowledge.packages()} - {part for source in sources for part in _folders(source)})
    with _deep_expressions():
        found = {source: uses.find(source.tree, packages) for source in sources if source.tree}
        return _assess_twice(sources, found)


@contextlib.contextmanager
def _deep_expressions() -> Iterator[None]:
    """Python parses a sum of 2,900 terms, and its walk through the tree ends with a RecursionError at 500."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _assess_twice(sources: Sequence[SourceFile], found: Mapping[SourceFile, Sequence[Use]]) -> Assessment:
    """Assesses the files as they are, and under `compat run --tf1`."""
    assessed = _assess(sources, found)
    old = {source: [use._replace(v1=True) for use in used] for source, used in found.items()}
    left = {_place(each) for each in _assess(sources, old, tf1=True).findings if each.state != RUNS}
    if not left < {_place(each) for each in assessed.findings if each.state != RUNS}:
        return assessed  # --tf1 helps nothing, or it takes names of TensorFlow 2 away
    findings = (each._replace(with_tf1=each.state != RUNS and _place(each) not in left) for each in assessed.findings)
    return assessed._replace(findings=tuple(findings))


def _place(finding: CodeFinding) -> tuple[str, int, str]:
    return finding.path, finding.line, finding.name


def _assess(sources: Sequence[SourceFile], found: Mapping[SourceFile, Sequence[Use]], tf1: bool = False) -> Assessment:
    """What is found in files of which the uses are known. `tf1`: they run under `compat run --tf1`."""
    several_workers = any(_trains_on_several(source, used) for source, used in found.items())
    every = {use.name for used in found.values() for use in used}
    dnn = any(use.name.startswith('tf.estimator.DNN') and not use.v1 for used in found.values() for use in used)
    findings, other, without = [], 0, 0
    for source in sources:
        if source.problem:
            entry = knowledge.entry('source that is not Python 3')
            findings.append(
                CodeFinding(
                    source.path, source.place(source.line), source.line, source.problem, BLOCKS, entry.here, entry
                )
            )
        if source.tree is None:
            continue
        imported = [use for use in found[source] if use.imported]
        if not imported:
            without += 1
            continue
        v1, old_sizes = any(use.v1 for use in imported), tf1 or not every.isdisjoint(_OLD_SIZES)
        program = _Program(v1, old_sizes, not every.isdisjoint(_NEW_SUMMARIES), not dnn)
        for use in found[source]:
            judged = [
                _spared(one, use) for one in _judge(use, program) if not (tf1 and knowledge.runs_with_tf1(one.name))
            ]
            findings += [CodeFinding(source.path, source.place(use.line), use.line, *one) for one in judged]
            other += not judged and use.name.startswith('tf.')
        entry = knowledge.entry('input_fn that shards nothing')
        for name, line in source_files.unsharded_input_fns(source.tree) if several_workers else ():
            name = f'{name} without input_context'
            findings.append(CodeFinding(source.path, source.place(line), line, name, NEEDS, entry.here, entry))
    order = {source.path: number for number, source in enumerate(sources)}
    unique = dict.fromkeys(sorted(findings, key=lambda finding: (order[finding.path], finding.line)))
    return Assessment(len(sources), without, tuple(unique), other)


def _folders(source: SourceFile) -> list[str]:
    """The folders of a file: a package does not depend on itself."""
    return os.path.abspath(source.path).split(os.sep)[:-1]


def _trains_on_several(source: SourceFile, used: Sequence[Use]) -> bool:
    if source_files.has_cluster(source.tree):
        return True
    makes = any('.distribute.' in use.name and use.name.endswith('Strategy') for use in used)
    return makes or any(use.name == 'tf.estimator.RunConfig' and 'train_distribute' in use.arguments for use in used)


def _spared(judged: _Judged, use: Use) -> _Judged:
    """A name runs where the program does without it, or where another line is to be changed for it."""
    if judged.state == RUNS:
        return judged
    if use.guarded or use.of_tpu:
        return judged._replace(state=RUNS, here=GUARDED if use.guarded else OF_TPU, old_import=False)
    # flags.FLAGS after `flags = tf.flags`
    if judged.old_import and tf_names.find(use.through).version == tf_names.ONLY_1:
        return judged._replace(state=RUNS, here='', old_import=False)
    return judged


def _judge(use: Use, program: _Program) -> Iterator[_Judged]:
    """What the table says of a use: of the name, and of each argument."""
    if use.name.startswith('.'):
        for name in (use.name, *(f'{use.name}({argument})' for argument in use.arguments)):
            entry = knowledge.table().get(name)
            if entry and entry.title == _SIZE and program.old_sizes:
                yield _Judged(name, RUNS, '', entry)
            elif entry:
                yield _by_import(name, entry, program.v1, '')
    elif use.name.startswith('tf.'):
        yield from _public(use, program)
        for argument in use.arguments:
            entry = knowledge.find_argument(use.name, argument)
            if entry:
                yield _by_import(f'{use.name}({argument})', entry, use.v1, '')
    else:
        entry = knowledge.find(use.name)
        if not use.imported and not (entry and _says_more_than_the_import(use.name, entry)):
            return
        if not entry and use.name.startswith('tensorflow.'):
            there = not {use.name, use.name.rpartition('.')[0]}.isdisjoint(tf_names.private_modules())
            entry = knowledge.entry(f'private modules that are {"there" if there else "gone"}')
        if entry:
            yield _Judged(use.name, entry.state, entry.here, entry)


def _says_more_than_the_import(name: str, entry: KnowledgeEntry) -> bool:
    """Of a package the table may have single names; of a private module it has those that are gone."""
    if name.split('.')[0] in uses.ROOTS:
        return entry.state != RUNS and name in knowledge.table()
    return '.' in entry.title


def _public(use: Use, program: _Program) -> Iterator[_Judged]:
    entry, known = knowledge.find(use.name), tf_names.find(use.name)
    of_a_class = entry and entry.title.startswith(f'{known.name}.')  # tf.data.Dataset.from_generator
    name = use.name if of_a_class else known.name
    if known.version == tf_names.UNKNOWN and (not entry or entry.state in (RUNS, TF1)):
        entry = knowledge.entry('names that TensorFlow does not have')
    elif known.version == tf_names.ONLY_2 and use.v1:
        entry = knowledge.entry('names of TensorFlow 2 behind compat.v1')
    elif known.version == tf_names.ONLY_1:
        entry = entry or knowledge.entry('names of TensorFlow 1')
        if entry.state == RUNS and not use.v1:
            yield _Judged(name, NEEDS, '; '.join(filter(None, (OLD_IMPORT, entry.here))), entry, True)
            return
    if entry and entry.title == _SHARED and program.trains_shared:
        entry = entry._replace(state=RUNS, here='')
    if entry:
        new = known.version == tf_names.BOTH and (entry.state != OTHER or program.new_summaries)
        yield _by_import(name, entry, use.v1 or new, OLD_IMPORT)


def _by_import(name: str, entry: KnowledgeEntry, v1: bool, here: str) -> _Judged:
    if entry.state not in (TF1, OTHER):
        return _Judged(name, entry.state, entry.here, entry)
    return _Judged(name, RUNS, '', entry) if v1 else _Judged(name, NEEDS, entry.here or here, entry, True)
