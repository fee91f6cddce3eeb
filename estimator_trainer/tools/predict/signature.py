"""The signature of a SavedModel: which features it takes, and what it gives."""

import itertools
from collections.abc import Sequence

import tensorflow as tf

from estimator_trainer import error_lines
from estimator_trainer.data.files import parsing
from estimator_trainer.errors import UsageError, nearest
from estimator_trainer.tools.predict import predict_plan


class Model:
    """A SavedModel, loaded.

    Args:
        export: its folder.
        signature: '': the first of predict_plan.DEFAULTS that there is.
        batch_size: the examples that `predict` will be given at once, but for the last ones; None: any.
        outputs: those that `predict` gives, in this order; (): all, in alphabetical order.

    Attributes:
        name: of the signature.
        takes_serialized: whether its only input are serialized tf.Examples.
        features: name -> FixedLenFeature, VarLenFeature or RaggedFeature, of what it takes and in the types that it
            takes. {} where it takes serialized examples and does not say which features it reads.

    Raises (on creation):
        UsageError: it cannot be loaded, has no signature that can be fed, or lacks one of the outputs.
    """

    def __init__(self, export: str, signature: str = '', outputs: Sequence[str] = (), batch_size: int | None = None):
        try:
            loaded = tf.saved_model.load(export)
        except (OSError, ValueError, RuntimeError, KeyError, tf.errors.OpError) as error:
            raise UsageError(f'{export}: cannot be loaded as a SavedModel: {first_line(error)}') from error
        self._batch_size = batch_size
        self._loaded = loaded  # holds the variables and tables
        self.name = signature or next((name for name in predict_plan.DEFAULTS if name in loaded.signatures), '')
        if self.name not in loaded.signatures:
            wanted = f'--signature={signature}: there is no such signature' if signature else 'which signature?'
            raise UsageError(f'{wanted} {export} has {", ".join(sorted(loaded.signatures)) or "none"}.')
        self._function = loaded.signatures[self.name]
        self._inputs = self._function.structured_input_signature[1]
        known = sorted(self._function.structured_outputs)
        for name in outputs:
            if name not in known:
                raise UsageError(
                    f'--outputs={name}: the signature {self.name} has no such output{nearest(name, known)}; it has '
                    f'{", ".join(known)}.'
                )
        self._outputs = outputs or known
        for name in self._outputs:
            if self._function.structured_outputs[name].dtype.is_complex:
                raise UsageError(
                    f'the output {name} of the signature {self.name} has complex numbers, which no format of --out '
                    'holds. Choose others by --outputs, or export its parts.'
                )
        self.takes_serialized, self.features = self._read_inputs()

    def predict(self, inputs: dict[str, tf.Tensor], rows: int) -> dict:
        """The outputs for a batch, by name, as arrays [rows, ...].

        Args:
            inputs: name -> tensor [rows, ...] of each feature; or of strings, under any name, if it takes serialized
                examples.
            rows: examples of the batch.

        Raises:
            UsageError: an output has not one value for each example.
            tf.errors.OpError: the model fails on these examples.
        """
        given = dict(zip(self._inputs, inputs.values())) if self.takes_serialized else inputs
        shaped = {name: tf.reshape(tensor, [rows, *self._inputs[name].shape[1:]]) for name, tensor in given.items()}
        outputs = self._function(**shaped)
        arrays = {name: outputs[name].numpy() for name in self._outputs}
        for name, array in arrays.items():
            if array.shape[:1] != (rows,):
                raise UsageError(
                    f'the output {name} of the signature {self.name} has shape {list(array.shape)} for {rows} '
                    'examples, not one value for each of them. Choose others by --outputs, or another --signature.'
                )
        return arrays

    def _read_inputs(self):
        for name, spec in self._inputs.items():
            if not isinstance(spec, tf.TensorSpec) or spec.shape.rank in (None, 0):
                raise UsageError(f'the input {name} of the signature {self.name} is no batch of tensors: {spec}.')
        if len(self._inputs) == 1:
            ((name, spec),) = self._inputs.items()
            if spec.dtype == tf.string and spec.shape.rank == 1:
                parsed = parsed_features(self._function.graph.as_graph_def())
                if parsed or 'example' in name:
                    return True, parsed
        for name, spec in self._inputs.items():
            if not spec.shape[1:].is_fully_defined():
                raise UsageError(
                    f'the input {name} of the signature {self.name} has shape {spec.shape}, and files need a fixed '
                    'shape for each example. Export it with a fixed shape, or with a signature that takes serialized '
                    'examples.'
                )
            size = spec.shape[0]
            if size is not None and self._batch_size not in (None, size):
                raise UsageError(
                    f'the input {name} of the signature {self.name} has shape {spec.shape}. Give --batch_size={size}, '
                    f'and a multiple of {size} examples; or export it with None in place of that number.'
                )
        features = {
            name: tf.io.FixedLenFeature(spec.shape[1:].as_list(), spec.dtype) for name, spec in self._inputs.items()
        }
        return False, features


def parsed_features(graph_def) -> dict:
    """The features that the ops of a graph parse from serialized examples, by name; {} without any such op."""
    found = {}
    for nodes in (graph_def.node, *(function.node_def for function in graph_def.library.function)):
        by_name = {node.name: node for node in nodes}
        for node in nodes:
            if node.op in ('ParseExample', 'ParseExampleV2'):  # the first is that of TensorFlow 1
                found.update(_of_parse_example(node, by_name))
    return found


def _of_parse_example(node, by_name) -> dict:
    def constant(place):
        source = by_name.get(node.input[place].partition(':')[0])
        while source and source.op in ('Reshape', 'Identity'):  # a default is brought into the shape of its feature
            source = by_name.get(source.input[0].partition(':')[0])
        return tf.make_ndarray(source.attr['value'].tensor) if source and source.op == 'Const' else None

    if node.op == 'ParseExample':  # one input for each name
        middle = 2 + node.attr['Nsparse'].i
        ends = (2, middle, middle + node.attr['Ndense'].i)
        keys = [[constant(place) for place in range(*each)] for each in itertools.pairwise(ends)]
        if any(key is None for part in keys for key in part):
            return {}
        (sparse, dense), ragged, first = ([[key.item().decode() for key in part] for part in keys], [], ends[2])
    else:
        names = [constant(place) for place in (2, 3, 4)]  # after the examples and their names
        if any(part is None for part in names):
            return {}
        sparse, dense, ragged = ([name.decode() for name in part.reshape(-1)] for part in names)
        first = 5
    found = dict(zip(sparse, map(tf.io.VarLenFeature, map(tf.as_dtype, node.attr['sparse_types'].list.type))))
    for name, kind in zip(ragged, node.attr['ragged_value_types'].list.type):
        found[name] = tf.io.VarLenFeature(tf.as_dtype(kind))
    kinds, shapes = node.attr['Tdense'].list.type, node.attr['dense_shapes'].list.shape
    for place, (name, kind, proto) in enumerate(zip(dense, map(tf.as_dtype, kinds), shapes)):
        shape, default = tf.TensorShape(proto), constant(first + place)
        if shape.is_fully_defined():
            missing = None if default is None or not default.size else default.reshape(shape.as_list())
            found[name] = tf.io.FixedLenFeature(shape.as_list(), kind, missing)
        else:  # a sequence of any length
            found[name] = tf.io.VarLenFeature(kind)
    return found


def first_line(error) -> str:
    """What an error says, without TensorFlow's list of places in the graph."""
    return error_lines.telling_line(parsing.message(error)) or type(error).__name__
