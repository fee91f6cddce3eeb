"""The way back: what `migrate` has made of a canned Estimator becomes an Estimator's checkpoint again.

`migrate` leaves a folder `estimator` beside the model: the description, which name in the checkpoint each number has,
and the settings of optimizers that Keras 2 keeps in checkpoints and that have no place in Keras 3.
"""

import json
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

from estimator_trainer.tools.migrate.canned import checkpoint_reader, programs
from estimator_trainer.tools.migrate.canned.in_keras_3 import tensors

_FOLDER = 'estimator'
_STEP = 'global_step'


def keep(to: str, description: dict, original: checkpoint_reader.CheckpointReader) -> None:
    """Writes the folder `estimator` of a result."""
    folder = os.path.join(to, _FOLDER)
    os.makedirs(folder)
    names = {}
    for number, one in enumerate(description['optimizers']):
        for slot, name in one['slots'].items():
            names |= {
                f'{variable}@{slot}': checkpoint_reader.slot_names(original.shapes, variable, name)
                for variable in one['variables']
            }
        names |= {f'{number}@{scalar}': [original.scalar_name(name)] for scalar, name in one['scalars'].items()}
    with open(os.path.join(folder, 'description.json'), 'w', encoding='utf-8') as file:
        json.dump({**description, 'slot_names': names}, file, indent=1)
    left_over = set(original.shapes) - original.used
    tensors.save(os.path.join(folder, 'left_over.npz'), {name: original.variable(name) for name in sorted(left_over)})


def migrate(result: str, to: str, keras_python: str) -> str:
    """Writes the numbers of `result`/model.keras as an Estimator's checkpoint into the folder `to`.

    Returns:
        its prefix.

    Raises:
        programs.CannotMigrate: the model cannot be opened.
    """
    folder = os.path.join(result, _FOLDER)
    with open(os.path.join(folder, 'description.json'), encoding='utf-8') as file:
        description = json.load(file)
    with tempfile.TemporaryDirectory(prefix='migrate-') as work:
        programs.run(keras_python or sys.executable, 'extract.py', work, os.path.abspath(result))
        weights, state = (tensors.load(os.path.join(work, f'{name}.npz')) for name in ('weights', 'slots'))
    saved = [
        (name, '', value) for name, value in {**weights, **tensors.load(os.path.join(folder, 'left_over.npz'))}.items()
    ]
    for key, value in state.items():
        saved += _parts(description['slot_names'][key], value.numpy())
    step = next(int(value) for name, _, value in saved if name == _STEP)
    saved = list({name: (name, slices, value) for name, slices, value in saved}.values())
    prefix = os.path.join(os.path.abspath(to), f'model.ckpt-{step}')
    names, slices, values = zip(*saved)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(names), shape_and_slices=list(slices), tensors=list(values))
    base = os.path.basename(prefix)
    tf.compat.v1.train.update_checkpoint_state(os.path.abspath(to), base, [base])
    return prefix


def _parts(names, value):
    """(name in the checkpoint, which part of the whole, value) of a slot."""
    if len(names) == 1:
        dtype = np.int64 if names[0] == _STEP or names[0].endswith('/iter') else value.dtype
        return [(names[0], '', value.astype(dtype))]
    places = checkpoint_reader.parts(list(value.shape), len(names))
    return [
        (name, checkpoint_reader.slice_spec(whole, begin, size), value[begin : begin + size])
        for name, (whole, begin, size) in zip(names, places)
    ]
