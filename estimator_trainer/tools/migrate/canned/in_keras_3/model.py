"""The Keras 3 model of a description. Needs TensorFlow and Keras 3; the modules that the user gets are beside it."""

import re

import estimator_optimizers
import feature_layers
import heads
import keras


class Built:
    """A model and which of its variables is which of the Estimator's.

    Attributes:
        model: features to logits; what is trained.
        serving: features to the predictions of the head, by name.
        on_examples: the same, of features as `dataset.parse` gives them; with the layers of the others.
        pairs: {name in the Estimator's checkpoint: Keras variable}.
    """

    def __init__(self, description: dict):
        self._units = description['units']
        self._layers = {}
        self._taken = set(description['features'])
        self.pairs = {}
        inputs = {
            name: keras.Input(shape=one['shape'], dtype=one['dtype'], name=name, sparse=one['sparse'])
            for name, one in description['features'].items()
        }
        parsed = {name: one['parsed'] for name, one in description['features'].items()}
        of_examples = {
            name: keras.Input(
                shape=[None] if one['shape'] is None else one['shape'],
                dtype=one['dtype'],
                name=name,
                sparse=one['shape'] is None,
            )
            for name, one in parsed.items()
        }
        out = self._logits(description, inputs)
        # A list of named inputs: a dict of them would be matched by position, and one more feature would shift all.
        self.model = keras.Model(list(inputs.values()), out, name='model')
        predictions = heads.predictions(description['head'], self._free('head'))
        self.serving = keras.Model(list(inputs.values()), predictions(out), name='serving')
        of_parsed = predictions(self._logits(description, of_examples))
        self.on_examples = keras.Model(list(of_examples.values()), of_parsed, name='on_examples')

    def _logits(self, description, inputs):
        self._inputs = inputs
        logits = []
        if description['baseline']:
            logits.append(self._baseline(description['baseline']))
        if description['deep']:
            logits.append(self._deep(description['deep']))
        if description['linear']:
            logits.append(self._linear(description['linear']))
        return logits[0] if len(logits) == 1 else self._once(keras.layers.Add, name='logits')(logits)

    def _once(self, kind, *arguments, name, **more):
        """The layer of this kind and name, made when it is first asked for. A column may have the name of a layer."""
        if (kind, name) not in self._layers:
            self._layers[kind, name] = kind(*arguments, name=self._free(name), **more)
        return self._layers[kind, name]

    def _free(self, name):
        """The name, as Keras takes it, and with underscores behind it where a feature or another layer has it."""
        made = re.sub(r'[^A-Za-z0-9_.-]', '_', name)
        while made in self._taken:
            made += '_'
        self._taken.add(made)
        return made

    def _baseline(self, name):
        layer = self._once(feature_layers.BaselineLogits, self._units, name='baseline')
        out = layer(dict(self._inputs))
        self.pairs[name] = layer.bias
        return out

    def _linear(self, linear):
        parts = []
        for one in linear['columns']:
            name = f'linear_{one["name"]}'
            dense = 'embedding' in one or one['column']['kind'] == 'indicator'
            if dense:
                layer = self._once(keras.layers.Dense, self._units, use_bias=False, name=name)
                parts.append(layer(self._dense(one, f'{name}_input')))
                self.pairs[one['weights']] = layer.kernel
            else:
                layer = self._once(
                    feature_layers.LinearColumn, one['column'], self._units, linear['combiner'], name=name
                )
                parts.append(self._call(layer))
                self.pairs[one['weights']] = layer.column_weights
        layer = self._once(feature_layers.SumAndBias, name='linear_sum')
        out = layer(parts)
        self.pairs[linear['bias']] = layer.bias
        return out

    def _deep(self, deep):
        parts = [self._dense(one, f'dnn_{one["name"]}') for one in deep['columns']]
        net = self._once(keras.layers.Concatenate, name='dnn_input')(parts) if len(parts) > 1 else parts[0]
        for number, units in enumerate(deep['hidden_units']):
            net = self._layer(net, units, deep['activation'], f'hiddenlayer_{number}')
            if deep['dropout']:
                net = self._once(keras.layers.Dropout, deep['dropout'], name=f'dnn_dropout_{number}')(net)
            if deep['batch_norm']:
                layer = self._once(keras.layers.BatchNormalization, momentum=0.999, name=f'dnn_batchnorm_{number}')
                net = layer(net)
                for variable in ('gamma', 'beta', 'moving_mean', 'moving_variance'):
                    there = f'dnn/hiddenlayer_{number}/batchnorm_{number}/{variable}'
                    self.pairs[there] = getattr(layer, variable)
        return self._layer(net, self._units, None, 'logits')

    def _layer(self, net, units, activation, name):
        layer = self._once(keras.layers.Dense, units, activation, name=f'dnn_{name}')
        net = layer(net)
        self.pairs |= {f'dnn/{name}/kernel': layer.kernel, f'dnn/{name}/bias': layer.bias}
        return net

    def _dense(self, one, name):
        if 'embedding' not in one:
            return self._call(self._once(feature_layers.DenseColumn, one['column'], name=name))
        layer = self._once(feature_layers.EmbeddingColumn, name=name, **one['embedding'])
        out = self._call(layer)
        self.pairs[one['table']] = layer.embedding_weights
        return out

    def _call(self, layer):
        return layer({key: self._inputs[key] for key in layer.keys})


def optimizer_of(description: dict, built: Built):
    """The optimizer of the whole model, built: one for each part, where the Estimator had two."""
    made = [getattr(estimator_optimizers, one['class']).from_config(one['config']) for one in description['optimizers']]
    optimizer = made[0]
    if len(made) == 2:
        second_is_linear = description['optimizers'][1]['variables'][0].startswith('linear/')
        deep, linear = made if second_is_linear else made[::-1]
        optimizer = estimator_optimizers.OptimizerByLayer(deep, {'linear_': linear})
    optimizer.build(built.model.trainable_variables)
    return optimizer


def state(description: dict, optimizer, names: dict) -> dict:
    """{name as WORK has it: variable of the optimizer} of all slots and scalars.

    Args:
        names: {id of a variable of the model: its name in the Estimator's checkpoint}.
    """
    found = {}
    for part in getattr(optimizer, 'optimizers', [optimizer]):
        variables = {names[id(variable)]: variable for variable in part.updated_variables}
        number, one = next(
            (number, one)
            for number, one in enumerate(description['optimizers'])
            if set(one['variables']) & set(variables)
        )
        for slot in one['slots']:
            found |= {f'{name}@{slot}': part.slot(slot, variable) for name, variable in variables.items()}
        found |= {f'{number}@{scalar}': getattr(part, scalar) for scalar in one['scalars']}
    return found
