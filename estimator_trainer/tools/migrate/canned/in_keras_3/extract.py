"""Writes the numbers of a model.keras into files. A program of its own.

    python extract.py WORK RESULT

WORK receives weights.npz and slots.npz, by the names of the Estimator's checkpoint.
"""

import json
import os
import sys

WORK, RESULT = sys.argv[1:3]
sys.path[:0] = [RESULT]

import estimator_optimizers  # noqa: E402, F401
import feature_layers  # noqa: E402, F401
import keras  # noqa: E402
import model as models  # noqa: E402
import tensors  # noqa: E402


def main():
    with open(os.path.join(RESULT, 'estimator', 'description.json'), encoding='utf-8') as file:
        description = json.load(file)
    by_path = {variable.path: name for name, variable in models.Built(description).pairs.items()}
    model = keras.models.load_model(os.path.join(RESULT, 'model.keras'))
    weights = {by_path[variable.path]: variable for variable in model.variables if variable.path in by_path}
    state = models.state(description, model.optimizer, {id(variable): name for name, variable in weights.items()})
    for name, variables in (('weights', weights), ('slots', state)):
        tensors.save(os.path.join(WORK, f'{name}.npz'), {key: variable.value for key, variable in variables.items()})
    print('\n' + json.dumps(len(weights)))


if __name__ == '__main__':
    main()
