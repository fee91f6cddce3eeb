"""compat.hook: a function before or after the import of a module."""

import importlib
import importlib.util
import inspect
import sys

import pytest

from estimator_trainer.compat import hook


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that can be imported, and has not been."""
    name = f'hooked_{tmp_path.name}'
    (tmp_path / f'{name}.py').write_text('import builtins\nbuiltins.hooked_events.append("executed")\nx = 1\n')
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for table in (hook._before, hook._after):
        table.pop(name, None)
    sys.modules.pop(name, None)


@pytest.fixture
def events(monkeypatch):
    found = []
    monkeypatch.setattr('builtins.hooked_events', found, raising=False)
    return found


def test_before_and_after_once_each(module, events):
    def before():
        events.append('before')

    def after(imported):
        events.append(('after', imported.x))

    for _ in range(2):  # asked twice
        hook.before(module, before)
        hook.after(module, after)
    assert events == []
    importlib.import_module(module)
    importlib.import_module(module)
    assert events == ['before', 'executed', ('after', 1)]


def test_what_is_imported_already_counts_as_imported_now(module, events):
    imported = importlib.import_module(module)
    hook.before(module, lambda: events.append('before'))
    hook.after(module, events.append)
    assert events == ['executed', 'before', imported]


def test_the_module_is_as_if_nobody_had_been_there(module, events):
    plain = importlib.import_module(module)
    kinds = type(plain.__loader__), type(plain.__spec__.loader)
    del sys.modules[module]
    hook.after(module, lambda imported: None)
    hooked = importlib.import_module(module)
    assert (type(hooked.__loader__), type(hooked.__spec__.loader)) == kinds
    assert 'hooked_events' in inspect.getsource(hooked)


def test_looking_for_a_module_does_nothing(module, events):
    hook.before(module, lambda: events.append('before'))
    spec = importlib.util.find_spec(module)
    assert spec.origin.endswith(f'{module}.py') and spec.loader.get_source(module)
    assert events == [] and importlib.util.find_spec('hooked_no_such_module') is None


def test_what_fails_fails_the_import(module, events):
    def refuse(imported):
        raise ImportError('refused')

    hook.after(module, refuse)
    with pytest.raises(ImportError, match='refused'):
        importlib.import_module(module)
    assert module not in sys.modules
