"""A TensorFlow of the future lacks a name that a patch uses: the run goes on without it, or is refused in a sentence.

Each patch is applied to a TensorFlow in which one name after the other is missing.
"""

import ast
import importlib
import pathlib
import sys
import types

import pytest
import tensorflow as tf

from estimator_trainer.compat import lacks, patches
from estimator_trainer.compat.patches import table

v1 = tf.compat.v1
PATCHES = pathlib.Path(patches.__file__).parent
DISTRIBUTE = 'tensorflow.python.distribute'
CONTEXT = 'tensorflow.python.eager.context'
DATA_SETS = 'tensorflow.python.data.ops.dataset_ops'
DATA_SET_CLASSES = ('UnaryUnchangedStructureDataset', 'DatasetV1Adapter')
LAUNCHER = f'{DISTRIBUTE}.cross_device_utils:CollectiveReplicaLauncher'
ESTIMATOR = 'tensorflow_estimator.python.estimator.estimator'
KERAS = f'{tf.keras.Model.__module__.partition(".")[0]}.src.backend'


def enter(manager):
    with manager:
        pass


def mends(of, name):
    """As `patches.AFTER` has it applied."""

    def apply(patch):
        with lacks.or_without():
            getattr(patch, name.partition('.')[2] or 'mend')(importlib.import_module(of))
        assert (of, name) in [(module, each) for module, names in patches.AFTER for each in names]

    return apply


def input_waits(patch):
    """training/step_graph.py has an operation wait for another one."""
    with tf.Graph().as_default(), lacks.or_without():
        one, two = tf.constant(1), tf.constant(2)
        patch.is_in_control_flow(one.op)
        patch.run_after(two.op, one.op)


GOES_ON = {  # name of a patch: (how it is applied, what it uses)
    'data_sets': (
        lambda patch: patch.batch_size(None),
        ['tensorflow.python.data.ops:dataset_ops', *(f'{DATA_SETS}:{name}' for name in DATA_SET_CLASSES)],
    ),
    'log_lines.silence_deprecations': (
        lambda patch: patch.silence_deprecations(),
        ['tensorflow.python.util:deprecation', 'tensorflow.python.util.deprecation:_PRINT_DEPRECATION_WARNINGS'],
    ),
    'eager_context.is_deterministic': (
        lambda patch: patch.is_deterministic(),
        ['tensorflow.python.framework:config', 'tensorflow.python.framework.config:is_op_determinism_enabled'],
    ),
    'session_mends.close_at_once': (
        mends(ESTIMATOR, 'session_mends.close_at_once'),
        [
            'tensorflow.python.data.ops:multi_device_iterator_ops',
            'tensorflow.python.data.ops.multi_device_iterator_ops:_create_device_dataset',
        ],
    ),
    'eager_context.at_once': (
        lambda patch: enter(patch.at_once()),
        ['tensorflow.python.eager:context', f'{CONTEXT}:eager_mode'],
    ),
    'eager_context.set_options': (
        lambda patch: patch.set_options(None, None),
        ['tensorflow.python.eager:context', f'{CONTEXT}:context'],
    ),
    'session_mends.end_forked_children': (
        lambda patch: patch.end_forked_children(),
        [
            'tensorflow.python.training:monitored_session',
            'tensorflow.python.training.monitored_session:_MonitoredSession',
        ],
    ),
    'graphs': (
        input_waits,
        [
            'tensorflow.python.framework.ops:Operation._get_control_flow_context',
            'tensorflow.python.framework.ops:Operation._add_control_input',
        ],
    ),
    'coordination_service.heartbeats_put_off': (
        lambda patch: enter(patch.heartbeats_put_off()),
        ['tensorflow.python.eager:context', f'{CONTEXT}:context', f'{CONTEXT}:Context.configure_coordination_service'],
    ),
    'multi_worker_mends.evaluate_alone': (
        mends(f'{DISTRIBUTE}.collective_all_reduce_strategy', 'multi_worker_mends.evaluate_alone'),
        [
            f'{DISTRIBUTE}.collective_all_reduce_strategy:CollectiveAllReduceExtended',
            f'{DISTRIBUTE}.collective_all_reduce_strategy:CollectiveAllReduceExtended._initialize_strategy',
            f'{DISTRIBUTE}.collective_all_reduce_strategy:CollectiveAllReduceExtended._initialize_local',
        ],
    ),
    'python_all_reduce': (
        lambda patch: patch.install(None, 2),
        [
            f'{DISTRIBUTE}:cross_device_utils',
            'tensorflow.python.ops:control_flow_util',
            'tensorflow.python.ops.control_flow_util:GraphOrParentsInXlaContext',
            'tensorflow.python.framework.ops:Graph._get_control_flow_context',
            LAUNCHER,
            *(f'{LAUNCHER}.{name}' for name in ('all_reduce', 'batch_all_reduce', '_next_instance_key')),
        ],
    ),
    'session_mends.guard_functions': (
        lambda patch: patch.guard_functions(()),
        ['tensorflow.python.ops:script_ops', 'tensorflow.python.ops.script_ops:FuncRegistry'],
    ),
    'python_lock': (
        lambda patch: patch.install(),
        [
            'tensorflow.python:pywrap_tfe',
            *(
                f'tensorflow.python.pywrap_tfe:TFE_{name}'
                for name in ('EnableCollectiveOps', 'WaitAtBarrier', 'InsertConfigKeyValue')
            ),
        ],
    ),
    'session_mends.look_often': (
        mends(ESTIMATOR, 'session_mends.look_often'),
        ['tensorflow.python.training:session_manager', 'tensorflow.python.training.session_manager:SessionManager'],
    ),
    'multi_worker_mends.add_up_tables': (
        mends(f'{DISTRIBUTE}.cross_device_utils', 'multi_worker_mends.add_up_tables'),
        [LAUNCHER, f'{LAUNCHER}.all_reduce_indexed_slices', f'{LAUNCHER}.all_reduce'],
    ),
    'sync_training': (
        lambda patch: patch.raise_when_a_task_is_lost(),
        ['tensorflow.python.training.monitored_session:_PREEMPTION_ERRORS'],
    ),
    'graphs.note_unseeded': (
        lambda patch: patch.note_unseeded(),
        ['tensorflow.python.framework:random_seed', 'tensorflow.python.framework.random_seed:get_seed'],
    ),
}
REFUSED = {
    'coordination_service': (
        lambda patch: patch.wait_at_barrier('all', 1),
        ['tensorflow.python.eager:context', f'{CONTEXT}:Context.wait_at_barrier'],
    ),
    'coordination_service ': (
        lambda patch: patch.send_text('key', 'text'),
        [f'{CONTEXT}:Context.set_config_key_value'],
    ),
    'coordination_service  ': (
        lambda patch: patch.received_text('key', 1),
        [f'{CONTEXT}:Context.get_config_key_value'],
    ),
    'seeds._generators': (lambda patch: enter(patch.begun_anew(1)), [f'{KERAS}:_SEED_GENERATOR']),
    'graphs.definition': (
        lambda patch: patch.definition('Add'),
        ['tensorflow.python.framework:op_def_registry', 'tensorflow.python.framework.op_def_registry:get'],
    ),
    'seeds': (
        lambda patch: patch._seed_tensorflow(tf, 1),
        ['tensorflow.python.framework:random_seed', 'tensorflow.python.framework.random_seed:get_seed'],
    ),
    'sync_training ': (  # as the trainer imports it
        lambda patch: None,
        [f'{DISTRIBUTE}:distribute_coordinator_context', 'tensorflow.python.training:monitored_session'],
    ),
}
FALLS_BACK = {  # evaluation/estimator_evaluator.py, training/several_steps.py: the plain path, which says why
    'evaluation_graph': (
        lambda patch: [
            v1.train.create_global_step(),
            patch.make_steps_per_run(),
            patch.counted(tf.no_op(), [types.SimpleNamespace(_set_evals_completed_tensor=lambda tensor: None)]),
        ],
        [
            'tensorflow.python.training:basic_session_run_hooks',
            'tensorflow.python.training.basic_session_run_hooks:get_or_create_steps_per_run_variable',
            'tensorflow.python.training:evaluation',
            'tensorflow.python.training.evaluation:_get_or_create_eval_step',
            'tensorflow.python.training.evaluation:_get_latest_eval_step_value',
        ],
    ),
    'graphs': (
        lambda patch: [
            patch.copy_functions(v1.get_default_graph(), v1.GraphDef()),
            patch.is_reference(types.SimpleNamespace(dtype=tf.int32)),
        ],
        [
            'tensorflow.python.framework.ops:Graph._copy_functions_to_graph_def',
            'tensorflow.python.framework.dtypes:DType._is_ref_dtype',
        ],
    ),
}


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


def test_a_context_in_another_form_is_waited_for_with_the_lock(monkeypatch, caplog):
    from tensorflow.python import pywrap_tfe

    from estimator_trainer.compat.patches import python_lock

    called = []
    for name in python_lock._WAITING:
        monkeypatch.setattr(pywrap_tfe, name, lambda *arguments: called.append(arguments))
    monkeypatch.setattr(lacks, 'left_out', set())
    assert python_lock.install()
    context = object()
    pywrap_tfe.TFE_WaitAtBarrier(context, 'all', 1)
    pywrap_tfe.TFE_InsertConfigKeyValue(context, 'key', 'text')
    assert called == [(context, 'all', 1), (context, 'key', 'text')]
    (line,) = caplog.messages
    assert 'has its context in another form. The run goes on' in line
