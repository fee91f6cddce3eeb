"""Files and folders are removed in run_dir/removal.py, and renamed over others in run_dir/files.py."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2] / 'estimator_trainer'
REMOVE = {'unlink', 'rmtree', 'rmdir', 'removedirs', 'deltree'}
REPLACE = {'replace', 'rename', 'renames', 'move'}
MODULES = {'os', 'shutil', 'gfile'}
ALLOWED = {  # file -> what its calls have to do with, each with its own proof
    'run_dir/removal.py': 'takes the proof',
    'run_dir/files.py': 'gives a temporary file of this process its name',
    'compat/tf1_names/contrib/mnist_data_sets.py': 'a temporary file of its own; compat may not import run_dir',
    'compat/patches/training_end.py': 'a file of its own in a folder that TensorFlow may know alone',
    'run_dir/log_folders.py': 'names of our own form, in a folder that is held by its descriptor',
    'supervisor/processes/local_launcher.py': 'a log that this process writes; it looks whether the other name is free',
    'submit/slurm_node.py': "a job's own folder, which make_private has made",
    'data/files/index.py': 'an index of this process, over an older one',
    'data/flights.py': 'files of this process, to names that are free',
    'data/remote/bounded_folder.py': 'files of this process within the cache',
    'evaluation/exporters.py': 'a SavedModel of this process, to a name that is free',
    'evaluation/keras_evaluator.py': 'a SavedModel of this process, to a name that is free',
    'monitoring/profiles/profiler.py': 'a profile of this process, to a name that is free',
    'run_dir/checkpoints.py': 'a damaged checkpoint of the run, into damaged/',
    'storage/after_boot.py': 'a damaged checkpoint of the run, into damaged/',
    'storage/fetch.py': 'the whole scratch folder, to a name of its own',
    'tools/migrate/to_keras.py': 'the file that the command was asked for',
    'tools/predict/prediction.py': 'the result; that nothing is there was looked at',
    'tools/comparison/verify_runs.py': 'a folder of this process',
}


def calls():
    for path in sorted(ROOT.rglob('*.py')):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                module = (
                    owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ''
                )
                name = node.func.attr
                is_of_files = module in MODULES and name in REMOVE | REPLACE | {'remove'}
                if is_of_files or (name in REMOVE and name != 'remove'):
                    yield str(path.relative_to(ROOT)), f'{module}.{name}', node.lineno


FOUND = list(calls())


@pytest.mark.parametrize('file', sorted({file for file, _, _ in FOUND}))
def test_nothing_else_removes_or_replaces(file):
    assert file in ALLOWED, [found for found in FOUND if found[0] == file]


def test_every_exception_is_needed():
    assert set(ALLOWED) == {file for file, _, _ in FOUND}
