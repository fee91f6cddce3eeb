"""A job's Keras model and optimizer, and how their variables are called in an Estimator's checkpoint."""

import os
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from estimator_trainer.compat.patches import optimizer_parts
from estimator_trainer.jobs import keras_models, optimizers
from estimator_trainer.tools.migrate import variable_names
from estimator_trainer.training import keras_training

_OBJECT_GRAPH = '_CHECKPOINTABLE_OBJECT_GRAPH'
_STEP = 'global_step'
_OWN_KEYS = ('model/', 'global_step/', 'optimizer/iter/')  # the iterations are both of the latter

# Slots of Keras's legacy optimizers -> what tf.compat.v1.train adds to the name of the variable.
_SLOTS = {
    tf.keras.optimizers.legacy.Adam: {'m': 'Adam', 'v': 'Adam_1'},
    optimizers.Momentum: {'momentum': 'Momentum'},
    tf.keras.optimizers.legacy.SGD: {},
}
_FACTORS_AT_ONCE = 1_000_000  # of a power: a run of 10**9 steps would need 4 GB
# Adam in tf.compat.v1.train keeps beta ** (step + 1), which Keras computes from the step.
_POWERS = {'beta1_power': 'beta_1', 'beta2_power': 'beta_2'}


class KerasJob(NamedTuple):
    """A job in Keras: its built model, its optimizer with slots, every pair of names, and the variable
    of each name in Keras."""

    model: tf.keras.Model
    optimizer: tf.keras.optimizers.legacy.Optimizer
    pairs: list
    variables: dict

    @property
    def step(self) -> int:
        return int(self.optimizer.iterations.numpy())


def keras_job(job, params, features) -> KerasJob:
    """Builds the job's model and optimizer.

    Args:
        features: one batch of the input_fn; its shapes build the model.

    Raises:
        ValueError: an optimizer whose slots have no equal in tf.compat.v1.train, or two variables of
            one name.
    """
    in_graph = _names_in_a_graph(job, params, features)
    tf.keras.backend.clear_session()  # numbers names such as dense_1 anew, as a graph of its own does
    model = keras_models.made(job.make_model, params)
    model(features, training=False)
    optimizer = job.parts.make_optimizer(params)
    kind = type(optimizer)
    if kind not in _SLOTS:
        raise ValueError(
            f'make_optimizer gives a {kind.__name__}, whose slots have no equal in '
            'tf.compat.v1.train; there are such for '
            f'{", ".join(sorted(known.__name__ for known in _SLOTS))}.'
        )
    optimizer_parts.create_variables(optimizer, model.trainable_variables)
    pairs, variables = [], {}

    def add(estimator, variable, role):
        name = keras_name(variable)
        if name in variables:
            raise ValueError(f'two variables of the model are called {name!r}: name its layers.')
        pairs.append(variable_names.Pair(estimator, name, tuple(variable.shape), role))
        variables[name] = variable

    called = dict(zip(map(id, model.weights), in_graph, strict=True))
    for variable in model.weights:
        add(called[id(variable)], variable, variable_names.WEIGHT)
    for variable in model.trainable_variables:
        for slot, suffix in _SLOTS[kind].items():
            add(f'{called[id(variable)]}/{suffix}', optimizer.get_slot(variable, slot), variable_names.SLOT)
    add(_STEP, optimizer.iterations, variable_names.STEP)
    if kind is tf.keras.optimizers.legacy.Adam:
        pairs += [
            variable_names.Pair(power, f'{beta} ** (iter + 1)', (), variable_names.POWER)
            for power, beta in _POWERS.items()
        ]
    return KerasJob(model, optimizer, pairs, variables)


def keras_name(variable) -> str:
    return variable.name.rpartition(':')[0] or variable.name


def _names_in_a_graph(job, params, features) -> list:
    """What the model's weights are called where Estimator builds it, in the order of `weights`."""
    tf.keras.backend.clear_session()
    with tf.Graph().as_default():
        model = keras_models.made(job.make_model, params)
        model(
            tf.nest.map_structure(
                lambda array: tf.compat.v1.placeholder(array.dtype, [None, *array.shape[1:]]), features
            ),
            training=False,
        )
        return [variable.op.name for variable in model.weights]


def powers(of: KerasJob) -> dict:
    """Name in the Estimator's checkpoint -> the power that belongs to the step, float32.

    Multiplied step by step, as tf.compat.v1.train does it and with its rounding; TensorFlow takes what
    is too small to be a normal number for 0.
    """
    found = {}
    for pair in of.pairs:
        if pair.kind == variable_names.POWER:
            beta = np.float32(optimizer_parts.settings(of.optimizer)[_POWERS[pair.estimator]])
            found[pair.estimator] = _power(beta, of.step + 1)
    return found


def _power(beta: np.float32, times: int) -> np.float32:
    power, tiny = np.float32(1), np.finfo(np.float32).tiny
    while times and power >= tiny:
        part = min(times, _FACTORS_AT_ONCE)
        factors = np.concatenate([[power], np.full(part, beta, np.float32)])
        after = np.multiply.accumulate(factors, dtype=np.float32)[-1]
        if after == power:  # the rounding keeps it from here on
            break
        power, times = after, times - part
    return power if power >= tiny else np.float32(0)


def from_estimator(prefix: str) -> dict:
    """Name -> array of an Estimator's checkpoint."""
    reader = tf.train.load_checkpoint(prefix)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def from_keras(prefix: str) -> dict:
    """Name in Keras -> array of a checkpoint of a model and its optimizer: weights, slots and `iter`.

    The optimizer's settings and what else a loop keeps are left out: the job says them anew.
    """
    reader = tf.train.load_checkpoint(prefix)
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(reader.get_tensor(_OBJECT_GRAPH))
    found = {}
    for node in graph.nodes:
        for attribute in node.attributes:
            key = attribute.checkpoint_key
            if key.startswith(_OWN_KEYS):
                found[attribute.full_name] = reader.get_tensor(key)
    return found


def write_estimator(folder: str, arrays, step: int) -> str:
    """Writes arrays by name as an Estimator's checkpoint, and names it in `folder/checkpoint`.

    Returns:
        The checkpoint's prefix.
    """
    folder = os.path.abspath(folder)  # with a relative one `checkpoint` would name other files
    prefix = os.path.join(folder, f'model.ckpt-{step}')
    tensor_names = sorted(arrays)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=tensor_names,
        shape_and_slices=[''] * len(tensor_names),
        tensors=[arrays[name] for name in tensor_names],
    )
    tf.compat.v1.train.update_checkpoint_state(folder, os.path.basename(prefix), [os.path.basename(prefix)])
    return prefix


def for_estimator(of: KerasJob) -> dict:
    """Every variable of the job by its name in an Estimator's checkpoint."""
    arrays = {
        pair.estimator: of.variables[pair.keras].numpy() for pair in of.pairs if pair.kind != variable_names.POWER
    }
    arrays[_STEP] = np.int64(arrays[_STEP])
    return {**arrays, **powers(of)}


def write_keras(model_dir: str, keras: KerasJob) -> str:
    """Writes the model and its optimizer as the newest checkpoint of a model_dir, in the form of `--loop=keras_fit` and
    `--loop=custom_loop`; its prefix."""
    manager = tf.train.CheckpointManager(
        _keras_checkpoint(keras), model_dir, max_to_keep=None, checkpoint_name=keras_training.CHECKPOINT_NAME
    )
    return manager.save(checkpoint_number=keras.step)


def restore_keras(prefix: str, keras: KerasJob) -> None:
    """Gives the model and its optimizer the values of such a checkpoint."""
    _keras_checkpoint(keras).restore(prefix).expect_partial()


def _keras_checkpoint(keras: KerasJob) -> tf.train.Checkpoint:
    optimizer = keras.optimizer
    return tf.train.Checkpoint(model=keras.model, optimizer=optimizer, global_step=optimizer.iterations)
