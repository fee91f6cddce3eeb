"""compat/hook.py beside other finders that ask all others in turn."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

from estimator_trainer.compat import hook
from tests.modules import copy_of

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def name(tmp_path, monkeypatch):
    """Of a module that nobody has imported. sys.meta_path is put back afterwards."""
    name = f'test_module_{tmp_path.name}'
    (tmp_path / f'{name}.py').write_text('value = 1\nassert value\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, 'meta_path', [*sys.meta_path])
    yield name
    sys.modules.pop(name, None)


def watch(watcher, name, calls, who='hook'):
    watcher.before(name, lambda: calls.append((who, 'before')))
    watcher.after(name, lambda module: calls.append((who, module.value)))


def test_two_copies_call_both_functions_and_end(name):
    """That of compat, and the one that verify loads from the file."""
    calls = []
    for who in 'ab':
        watch(copy_of(hook), name, calls, who)
    module = importlib.import_module(name)
    assert sorted(calls, key=str) == [('a', 'before'), ('a', 1), ('b', 'before'), ('b', 1)]
    assert module.__spec__.loader is module.__loader__ and not isinstance(module.__loader__, hook._Loader)


@pytest.mark.parametrize('ours_first', [True, False])
def test_wrapt(name, ours_first):
    wrapt = pytest.importorskip('wrapt')  # TensorFlow brings it
    importer = copy_of(wrapt.importer)  # which has not put its finder into sys.meta_path yet
    calls = []

    def watch_by_wrapt():
        importer.register_post_import_hook(lambda module: calls.append(('wrapt', module.value)), name)

    first, second = (lambda: watch(copy_of(hook), name, calls)), watch_by_wrapt
    for each in (first, second) if ours_first else (second, first):
        each()
    importlib.import_module(name)
    assert sorted(calls, key=str) == [('hook', 'before'), ('hook', 1), ('wrapt', 1)]


def test_the_rewriting_of_pytest(name):
    calls = []
    watch(copy_of(hook), name, calls)
    module = importlib.import_module(name)
    assert calls == [('hook', 'before'), ('hook', 1)]
    assert type(module.__loader__).__name__ == 'AssertionRewritingHook'  # it rewrites what is called test_*


def test_a_lazy_importer(name):
    """The function gets the module, whose first use executes it."""

    class Lazy:
        def find_spec(self, fullname, path=None, target=None):
            if fullname != name:
                return None
            spec = importlib.machinery.PathFinder.find_spec(fullname, path)
            spec.loader = importlib.util.LazyLoader(spec.loader)
            return spec

    sys.meta_path.insert(0, Lazy())
    calls = []
    watch(copy_of(hook), name, calls)
    assert importlib.import_module(name).value == 1
    assert calls == [('hook', 'before'), ('hook', 1)]


def test_a_finder_that_asks_all_others_without_a_guard(name):
    class Asks:
        def find_spec(self, fullname, path=None, target=None):
            for finder in sys.meta_path:
                spec = finder.find_spec(fullname, path, target) if finder is not self else None
                if spec is not None:
                    return spec
            return None

    calls = []
    sys.meta_path.insert(0, Asks())
    watch(copy_of(hook), name, calls)
    importlib.import_module(name)
    assert calls == [('hook', 'before'), ('hook', 1)]


def test_importing_compat_imports_next_to_nothing():
    heavy = {'tensorflow', 'importlib.metadata', 'numpy', 'typing', 'importlib.abc'}
    program = f'import sys, estimator_trainer.compat; print(sorted({heavy} & set(sys.modules)))'
    done = subprocess.run(
        [sys.executable, '-c', program], env={}, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == '[]\n'
