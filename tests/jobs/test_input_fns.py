"""How an input_fn is called: by the names of its arguments, as Estimator calls one."""

import copy
import functools
import importlib
import sys
import types

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import input_fns

GIVEN = {'mode': 'train', 'params': {'a': 1}, 'config': 'config', 'input_context': 'context'}


def got(**arguments):
    return arguments


class Callable:
    def __call__(self, params, mode):
        return got(params=params, mode=mode)

    def method(self, mode):
        return got(mode=mode)


def in_three(first, second, third):
    return first, second, third


def renamed(mode, params, context):
    return mode, params, context


BY_NAME = {
    'nothing': (lambda: got(), ()),
    'mode': (lambda mode: got(mode=mode), ('mode',)),
    'mode and params': (lambda mode, params: got(mode=mode, params=params), ('mode', 'params')),
    'another order': (lambda params, mode: got(params=params, mode=mode), ('params', 'mode')),
    'config': (lambda config, mode='x': got(config=config, mode=mode), ('config', 'mode')),
    'only the context': (lambda input_context: got(input_context=input_context), ('input_context',)),
    'only by name': (lambda *, params, mode: got(params=params, mode=mode), ('params', 'mode')),
    'another one with a default': (lambda mode, size=3: got(mode=mode), ('mode',)),
    'all, and others': (lambda mode, params, config, input_context, **others: {**GIVEN, **others}, tuple(GIVEN)),
    'a partial': (functools.partial(lambda files, mode: got(mode=mode), 'files'), ('mode',)),
    'an object': (Callable(), ('params', 'mode')),
    'a method': (Callable().method, ('mode',)),
}
IN_PLACE = {'other names': in_three, 'one other name': renamed, 'any number': lambda *arguments: arguments}


@pytest.mark.parametrize('input_fn, names', BY_NAME.values(), ids=BY_NAME)
def test_it_gets_what_it_names(input_fn, names):
    assert not input_fns.problem(input_fn)
    assert input_fns.by_name(input_fn)('train', {'a': 1}, 'context', 'config') == {name: GIVEN[name] for name in names}


@pytest.mark.parametrize('input_fn', IN_PLACE.values(), ids=IN_PLACE)
def test_three_arguments_of_other_names_are_given_in_place(input_fn):
    assert not input_fns.problem(input_fn)
    assert input_fns.by_name(input_fn)('train', {'a': 1}, 'context', 'config') == ('train', {'a': 1}, 'context')


def test_what_a_partial_has_bound_stays():
    bound = functools.partial(lambda mode, params: (mode, params), mode='eval')
    assert input_fns.by_name(bound)('train', {'a': 1}) == ('eval', {'a': 1})


def test_without_a_context_a_default_stands():
    assert input_fns.by_name(lambda input_context='own': input_context)('train', {}) == 'own'
    assert input_fns.by_name(lambda input_context: input_context)('train', {}) is None


@pytest.mark.parametrize(
    'input_fn, named',
    [(lambda mode, files: None, 'files'), (lambda a, b: None, 'a, b'), (lambda params, mode, files: None, 'files')],
)
def test_what_nobody_gives_is_named(input_fn, named):
    problem = input_fns.problem(input_fn)
    assert problem.startswith(f'the input_fn takes {named}, which nobody gives')
    assert 'mode, params, config, input_context' in problem


class DataSet:
    """Stands for tf.data.Dataset."""


@pytest.fixture
def tensorflow(monkeypatch):
    data = types.SimpleNamespace(Dataset=DataSet)
    monkeypatch.setitem(sys.modules, 'tensorflow', types.SimpleNamespace(data=data))


@pytest.mark.parametrize('given', [({'x': 1}, 2), {'x': 1}, None])
def test_tensors_are_refused_where_a_data_set_is_needed(tensorflow, given):
    input_fn = input_fns.by_name(lambda: given)
    needed_by = {'train': 'the strategy mirrored', 'eval': ''}.get
    assert input_fns.data_sets_only(input_fn, needed_by)('eval', {}) is given
    with pytest.raises(
        UsageError, match='which the strategy mirrored needs: let it return the data set itself'
    ) as error:
        input_fns.data_sets_only(input_fn, needed_by)('train', {})
    kind = {tuple: 'a tuple', dict: 'a dict'}.get(type(given), 'nothing')
    assert str(error.value).startswith(f'the input_fn returns {kind} and no tf.data.Dataset')


@pytest.mark.parametrize('given', [DataSet(), lambda: None])
def test_a_data_set_is_given_on(tensorflow, given):
    """And a function, which a strategy takes."""
    input_fn = input_fns.by_name(lambda mode, params: (mode, params) and given)
    assert input_fns.data_sets_only(input_fn, lambda mode: 'it')('train', {'a': 1}) is given


def test_a_serving_input_fn_takes_params_or_nothing():
    assert input_fns.serving(lambda: 'served')({'a': 1}) == 'served'
    assert input_fns.serving(lambda params: params)({'a': 1}) == {'a': 1}
    assert input_fns.serving(lambda p: p)({'a': 1}) == {'a': 1}


READERS = {
    'by name': lambda params: params['start_step'],
    'get': lambda params: params.get('start_step', 0),
    'a copy': dict,
    'a display': lambda params: {**params, 'more': 1},
    'arguments': lambda params: (lambda start_step, batch_size: start_step)(**params),
    'items': lambda params: list(params.items()),
    'values': lambda params: list(params.values()),
    'its own copy': lambda params: params.copy(),
    'merged': lambda params: params | {'more': 1},
    'merged into another': lambda params: {'more': 1} | params,
    'updated': lambda params: {'more': 1}.update(params),
    'taken out': lambda params: params.pop('start_step'),
    'deepcopy': copy.deepcopy,
    'set where it is missing': lambda params: params.setdefault('start_step', 0),
}

AFTER_A_COPY = """
import argparse


def unread(params):
    return argparse.Namespace(**params).batch_size


def listed(params):
    print(sorted(params.items()), dict(params), [name for name in params])
    return params[NAME]
"""


@pytest.mark.parametrize('read', READERS.values(), ids=READERS)
def test_an_input_fn_that_reads_the_start_is_not_noticed(read):
    noticed = []
    call = input_fns.noticing_restart(lambda params: read(params), lambda: noticed.append(1))
    call('train', {'start_step': 7, 'batch_size': 2})
    assert not noticed


def _modules(folder, monkeypatch, **sources):
    """Modules of the folder; functions that are looked at by name."""
    monkeypatch.syspath_prepend(folder)
    for name, source in sources.items():
        (folder / f'{name}.py').write_text(source)
        monkeypatch.setitem(sys.modules, name, importlib.import_module(name))
    return [sys.modules[name] for name in sources]


def _is_noticed(input_fn):
    noticed = []
    call = input_fns.noticing_restart(input_fn, lambda: noticed.append(1))
    call('train', {'start_step': 7, 'batch_size': 2})
    return bool(noticed)


@pytest.mark.parametrize('name', ['batch_size', 'start_step'])
def test_params_may_be_listed_before_one_is_read(tmp_path, monkeypatch, name):
    (module,) = _modules(tmp_path, monkeypatch, **{f'listing_{name}': AFTER_A_COPY.replace('NAME', 'KEY')})
    module.KEY = name
    assert _is_noticed(functools.partial(module.listed)) == (name == 'batch_size')


def test_of_params_that_are_copied_the_sources_of_the_job_show_what_is_read(tmp_path, monkeypatch):
    """argparse.Namespace(**params) reads all of them, whatever is used of it."""
    (module,) = _modules(tmp_path, monkeypatch, copying=AFTER_A_COPY)
    assert _is_noticed(module.unread)
    _modules(tmp_path, monkeypatch, helper='def skip(params):\n    return params.start_step\n')
    assert not _is_noticed(module.unread)  # it may hand them over
    nowhere = {}
    exec(AFTER_A_COPY, nowhere)
    assert not _is_noticed(nowhere['unread'])  # as in a REPL: nobody knows


def test_an_input_fn_that_begins_anew_is_noticed_once_and_where_it_matters():
    noticed = []
    call = input_fns.noticing_restart(lambda params: params['batch_size'], lambda: noticed.append(1))
    assert call('train', {'start_step': 0, 'batch_size': 2}) == call('eval', {'start_step': 7, 'batch_size': 2}) == 2
    assert not noticed
    assert call('train', {'start_step': 7, 'batch_size': 2}) == call('train', {'start_step': 7, 'batch_size': 2}) == 2
    assert noticed == [1]
