"""The numbers of an Estimator's checkpoint, those of partitioned variables and their slots put together."""

import re
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

_STEP = 'global_step'


def slot_names(names: Iterable[str], variable: str, slot: str) -> list[str]:
    """What the slot of a variable is called in a checkpoint: one name, or one for each partition, in their order.

    With partitions optimizers of tf.compat.v1.train write `VARIABLE/part_0/Adagrad`, and, where a variable was made
    under another name scope, `VARIABLE/t_0/Adagrad`.

    Args:
        names: of all that is in the checkpoint.
        slot: such as '{variable}/Adagrad'.
    """
    before, after = (re.escape(part) for part in slot.split('{variable}'))
    pattern = re.compile(rf'{before}{re.escape(variable)}(?:/(?:part|t)_(\d+))*{after}')
    found = [(int(match[1] or 0), name) for name in names if (match := pattern.fullmatch(name))]
    return [name for _, name in sorted(found)]


class CheckpointReader:
    """A checkpoint, read as often as it is asked.

    Attributes:
        prefix: its path.
        shapes: {name: shape}; of a partition's slot that of the whole.
        used: the names that have been asked for.
    """

    def __init__(self, prefix: str):
        self.prefix = prefix
        self._reader = tf.train.load_checkpoint(prefix)
        self.shapes = self._reader.get_variable_to_shape_map()
        self.used = {_STEP}

    @property
    def step(self) -> int:
        return int(self._reader.get_tensor(_STEP))

    def variable(self, name: str) -> np.ndarray:
        """Raises KeyError where there is none."""
        if name not in self.shapes:
            raise KeyError(name)
        self.used.add(name)
        return self._reader.get_tensor(name)

    def slot(self, variable: str, slot: str) -> np.ndarray:
        """A slot, whole. Raises KeyError where there is none."""
        names = slot_names(self.shapes, variable, slot)
        if not names:
            raise KeyError(slot.format(variable=variable))
        self.used.update(names)
        if len(names) == 1:
            return self._reader.get_tensor(names[0])
        whole = list(self.shapes[variable])
        return np.concatenate([self._part(name, *place) for name, place in zip(names, parts(whole, len(names)))])

    def scalar_name(self, name: str) -> str:
        """The whole name of one number, of which `name` is the end. Raises KeyError where there is none."""
        names = sorted((each for each in self.shapes if f'/{each}'.endswith(f'/{name}')), key=len)
        if not names:
            raise KeyError(name)
        return names[0]

    def scalar(self, name: str) -> np.ndarray:
        """One number, by the end of its name. Raises KeyError where there is none."""
        return self.variable(self.scalar_name(name))

    def _part(self, name, whole, begin, size):
        spec = slice_spec(whole, begin, size)
        tensors = tf.raw_ops.RestoreV2(
            prefix=self.prefix, tensor_names=[name], shape_and_slices=[spec], dtypes=[tf.float32]
        )
        return tensors[0].numpy()


def parts(whole, count):
    """(shape of the whole, first row, number of rows) of each partition: earlier ones are a row longer."""
    least, longer = divmod(whole[0], count)
    begin = 0
    for number in range(count):
        size = least + (number < longer)
        yield whole, begin, size
        begin += size


def slice_spec(whole, begin: int, size: int) -> str:
    """How TensorFlow's checkpoints call some rows of a tensor of the shape `whole`."""
    rest = ':'.join(['', *(f'0,{length}' for length in whole[1:])])
    return f'{" ".join(map(str, whole))} {begin},{size}{rest}'
