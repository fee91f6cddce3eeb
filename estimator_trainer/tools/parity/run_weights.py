"""The weights of a run at each of its checkpoints, whichever loop has written them."""

import glob
import os

from estimator_trainer.run_dir import checkpoints
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.migrate import loaded_run as migrate_run
from estimator_trainer.tools.migrate import variable_names, weights


def trained(model_dir: str) -> dict:
    """Name in an Estimator's checkpoint -> itself, of every variable that the graph of its first checkpoint trains."""
    from tensorflow.core.framework import variable_pb2
    from tensorflow.core.protobuf import meta_graph_pb2

    graph = meta_graph_pb2.MetaGraphDef()
    path = min(glob.glob(os.path.join(glob.escape(model_dir), 'model.ckpt-*.meta')), key=len)
    with open(path, 'rb') as file:
        graph.ParseFromString(file.read())
    variables = graph.collection_def['trainable_variables'].bytes_list.value
    names_ = [variable_pb2.VariableDef.FromString(variable).variable_name for variable in variables]
    return {name: name for name in (name.partition(':')[0] for name in names_)}


def called(model_dir: str, data_dir: str = '') -> dict:
    """Name in an Estimator's checkpoint -> name in Keras, of every weight of a run's job."""
    run = migrate_run.load(model_dir, 0, data_dir)
    pairs = weights.keras_job(run.job, run.params, run.features).pairs
    return {pair.estimator: pair.keras for pair in pairs if pair.kind == variable_names.WEIGHT}


def by_step(model_dir: str, names_in_keras) -> dict:
    """Global step -> name in Keras -> array, without slots, from all of the run's checkpoints.

    A weight that a checkpoint lacks is left out.
    """
    arrays_by_step = {}
    for checkpoint in RunFolder(model_dir).checkpoints:
        prefix = os.path.join(model_dir, checkpoint.name)
        if checkpoints.is_of_objects(prefix):
            arrays = weights.from_keras(prefix)
        else:
            arrays = {
                names_in_keras[name]: array
                for name, array in weights.from_estimator(prefix).items()
                if name in names_in_keras
            }
        arrays_by_step[checkpoints.step_of(prefix)] = {
            name: arrays[name] for name in names_in_keras.values() if name in arrays
        }
    return arrays_by_step
