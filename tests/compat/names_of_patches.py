"""How each patch is applied, and which names of TensorFlow it uses; test_tf_lacks.py takes one after the other away."""

import importlib
import types

import tensorflow as tf

from estimator_trainer.compat import lacks, patches

v1 = tf.compat.v1
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
    'session_mends.raise_every_error': (
        lambda patch: patch.raise_every_error(),
        [
            'tensorflow.python.training:monitored_session',
            'tensorflow.python.training.monitored_session:_PREEMPTION_ERRORS',
        ],
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
        [f'{DISTRIBUTE}:distribute_coordinator_context'],
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
