"""A file is one idea: none is so long that it has several, or so short that a reader opens two for one of them."""

import ast
import collections
import functools
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
MOST_LINES = 300
FEW_LINES = 80  # a file below that belongs into its only importer

# Files below FEW_LINES that one file of their own folder imports, and why they are files of their own. Those of a
# folder in FILES_OF_A_KIND need no reason.
FILES_OF_A_KIND = ('tf_config/resolvers',)  # each engine is a file
SHORT = {
    'estimator_trainer/data/files/streamed.py': 'files on a disk are read without the threads and caches of a store',
    'estimator_trainer/data/mnist_5k.py': 'TFDS writes the name of this module into each data set that it prepares',
    'estimator_trainer/jobs/keras_model_fn.py': 'jobs/job.py is the contract, which users read; this is no part of it',
    'estimator_trainer/monitoring/profiles/read.py': 'a program without TensorFlow, which profiler.py starts',
    'estimator_trainer/tools/migrate/predictions.py': 'the only part of to_keras.py that knows how a model is served',
    'estimator_trainer/training/batch_sizes.py': 'pure questions to a data set; training/trainer.py builds trainers',
    'estimator_trainer/this_process/mapped_memory.py': 'where an array lies; neither sockets, threads nor tasks',
    'tf_config/misplaced.py': 'one rule of many; tf_config/reader.py would have 340 lines with it',
    'estimator_trainer/secure/membership.py': 'who a task is, without a connection',
    'estimator_trainer/training/graph_rewrites.py': 'asks TensorFlow about a rewritten graph; sessions are elsewhere',
    'estimator_trainer/training/layer_precision.py': 'a policy of Keras round make_model; keras_training.py trains',
}


def _files(*folders):
    return [path.relative_to(ROOT) for folder in folders for path in sorted((ROOT / folder).rglob('*.py'))]


def _length(path):
    return len((ROOT / path).read_text(encoding='utf-8').splitlines())


@functools.cache
def importers():
    """Module -> the modules of the packages that import it, or name it in a text."""
    modules = {_module(path): path for path in _files('estimator_trainer', 'tf_config')}
    found = collections.defaultdict(set)
    for module, path in modules.items():
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding='utf-8'))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f'{path} has a relative import'
                whole = [f'{node.module}.{alias.name}' for alias in node.names]
                names = [name if name in modules else node.module for name in whole]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names = [node.value]
            for name in set(names) & modules.keys() - {module}:
                found[name].add(module)
    return {path: sorted(modules[each] for each in found[module]) for module, path in modules.items()}


def _module(path):
    return '.'.join(path.with_suffix('').parts).removesuffix('.__init__')


def test_no_file_is_long():
    lengths = {str(path): _length(path) for path in _files('estimator_trainer', 'tf_config', 'tests')}
    long = {path: lines for path, lines in lengths.items() if lines > MOST_LINES and 'third_party' not in path}
    assert not long, f'too long: divide them by what they are about, or shorten them: {long}'


def test_a_short_file_has_several_importers_or_a_reason():
    short = {
        str(path)
        for path, named_in in importers().items()
        if path.name != '__init__.py'
        and len(named_in) == 1
        and named_in[0].parent == path.parent
        and str(path.parent) not in FILES_OF_A_KIND
        and _length(path) < FEW_LINES
    }
    new = {path: str(importers()[pathlib.Path(path)][0]) for path in sorted(short - SHORT.keys())}
    assert not new, f'short: move each into its only importer, or say in SHORT why it is a file of its own: {new}'
    gone = sorted(SHORT.keys() - short)
    assert not gone, f'no longer short, or with several importers: remove them from SHORT: {gone}'
