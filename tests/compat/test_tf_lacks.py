"""A TensorFlow of the future lacks a name that a patch uses: the run goes on without it, or is refused in a sentence.

Each patch is applied to a TensorFlow in which one name after the other is missing.
"""

import ast
import importlib
import pathlib
import sys

import pytest
import tensorflow as tf

from estimator_trainer.compat import lacks, patches
from estimator_trainer.compat.patches import table
from tests.compat.names_of_patches import FALLS_BACK, GOES_ON, REFUSED, enter

v1 = tf.compat.v1
PATCHES = pathlib.Path(patches.__file__).parent


def row_of(name):
    (row,) = (row for row in table.rows() if row.name == name.strip())
    return row


def cases(group):
    return [(name, missing) for name, (_, names) in group.items() for missing in names]


@pytest.fixture
def without(monkeypatch):
    """(patch, what is missing) -> a fresh module of the patch, in a TensorFlow without that name."""

    def hide(name, missing):
        for module, names in patches.AFTER:  # they are imported before their names are hidden
            importlib.import_module(module)
        file = name.strip().partition('.')[0]
        module = importlib.import_module(f'{patches.__name__}.{file}')
        where, _, attribute = missing.partition(':')
        owner = importlib.import_module(where)
        *classes, attribute = attribute.split('.')
        for each in classes:
            owner = getattr(owner, each)
        if f'{where}.{attribute}' in sys.modules:
            monkeypatch.setitem(sys.modules, f'{where}.{attribute}', None)
        for each in owner.__mro__ if isinstance(owner, type) else [owner]:
            if attribute in vars(each):
                monkeypatch.delattr(each, attribute)
        assert not hasattr(owner, attribute)
        monkeypatch.setattr(lacks, 'left_out', set())
        monkeypatch.setattr(patches, file, module)
        monkeypatch.delitem(sys.modules, module.__name__)
        return lambda: importlib.import_module(module.__name__)

    return hide


def touched(missing):
    """What of TensorFlow the patch may have changed."""
    module = sys.modules.get(missing.partition(':')[0])
    classes = [each for each in vars(module).values() if isinstance(each, type)]
    return {id(each): dict(vars(each)) for each in (module, *classes)}


@pytest.mark.parametrize('name, missing', cases(GOES_ON))
def test_the_run_goes_on_and_one_line_says_so(without, caplog, name, missing):
    load, before = without(name, missing), None
    patch = load()
    before = touched(missing)
    for _ in range(2):  # it is said once
        GOES_ON[name][0](patch)
    assert touched(missing) == before  # nothing is half applied
    (line,) = caplog.messages
    assert line.startswith(f'TensorFlow {lacks._version()} has no {missing.partition(":")[0]}')
    assert missing.rpartition(':')[2].rpartition('.')[2] in line
    assert line.endswith(row_of(name).without)


@pytest.mark.parametrize('name, missing', cases(REFUSED))
def test_the_run_is_refused_in_a_sentence(without, name, missing):
    load = without(name, missing)
    with pytest.raises((AttributeError, ImportError)) as raised:
        REFUSED[name][0](load())
    said = lacks.refusal(raised.value)
    assert said.startswith(f'TensorFlow {lacks._version()} has no {missing.partition(":")[0]}')
    assert row_of(name).without in said
    assert said.endswith(f'Install TensorFlow 2.15 to {lacks.NEWEST}.') and '\n' not in said


@pytest.mark.parametrize('name, missing', cases(FALLS_BACK))
def test_the_plain_path_is_taken(without, name, missing):
    patch = without(name, missing)()
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match=' has no tensorflow.python'):
        with lacks.told_as(RuntimeError):
            FALLS_BACK[name][0](patch)


def test_each_module_of_tensorflow_that_a_patch_imports_is_among_the_cases():
    tried = {(name.strip(), missing) for group in (GOES_ON, REFUSED, FALLS_BACK) for name, missing in cases(group)}
    for path in PATCHES.glob('*.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.ImportFrom) and f'{node.module}.'.startswith('tensorflow.python.'):
                for each in node.names:
                    assert (table.row_at(path, node.lineno).name, f'{node.module}:{each.name}') in tried


class OfTensorFlow:
    __module__ = 'tensorflow.python.framework.ops'


def test_a_loss_that_would_be_another_one_is_refused(monkeypatch):
    from estimator_trainer.compat.patches import strategy_mends

    class BaseHead:
        create_estimator_spec_train_op = staticmethod(lambda: 'train_op')

    strategy_mends.report_mean_loss(BaseHead)
    monkeypatch.setattr(v1, 'get_default_graph', OfTensorFlow)
    assert BaseHead.create_estimator_spec_train_op() == 'train_op'  # alone it does not matter
    monkeypatch.setattr(tf.distribute, 'get_strategy', lambda: tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1']))
    with pytest.raises(
        lacks.Refused, match='_is_loss_scaled_by_optimizer, and without it: canned Estimators'
    ) as raised:
        BaseHead.create_estimator_spec_train_op()
    assert lacks.refusal(raised.value) == str(raised.value)


def test_accumulated_losses_of_another_scale_are_refused(monkeypatch):
    from estimator_trainer.compat.patches import counted_replicas

    monkeypatch.setattr(v1, 'get_default_graph', OfTensorFlow)
    with pytest.raises(AttributeError, match='_is_loss_scaled_by_optimizer') as raised:
        counted_replicas.loss_is_mean()
    assert 'without it: --accumulate_steps cannot scale the loss' in lacks.refusal(raised.value)


def test_a_variable_whose_average_cannot_be_read_beforehand_is_refused():
    from estimator_trainer.compat.patches import strategy_mends

    class Average(tf.distribute.DistributedValues):
        __module__ = 'tensorflow.python.distribute.values'
        synchronization = tf.VariableSynchronization.ON_READ

        def __init__(self):
            pass

    with pytest.raises(AttributeError) as raised:
        enter(strategy_mends.averages_read_beforehand([Average()]))
    assert '_get_cross_replica, and without it: a checkpoint of the chief alone' in lacks.refusal(raised.value)


@pytest.mark.parametrize('raising', ['import nowhere', 'tf.nowhere', 'lacks.nowhere', 'None.nowhere', '1 / 0'])
def test_errors_of_others_are_left_alone(raising):
    try:
        exec(raising)
    except Exception as error:
        assert lacks.refusal(error) is None
    if raising != 'tf.nowhere':
        with pytest.raises((AttributeError, ImportError, ZeroDivisionError)), lacks.or_without():
            exec(raising)


def test_without_the_api_names_there_are_no_estimators(without, monkeypatch):
    from estimator_trainer.compat import restore

    without('seeds', 'tensorflow.python.util:tf_export')
    with pytest.raises(lacks.Refused, match='tf_export, and without it: there is no tf.estimator'):
        restore._add_api_name()
