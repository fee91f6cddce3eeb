"""What a run has come to: its checkpoints, its summaries, and what it has read and told."""

import dataclasses
import glob
import os

import tensorflow as tf

_NOT_COMPARED = {'examples_per_sec', 'global_step/sec', 'input_wait_secs', 'peer_wait_secs'}  # of a clock

_OF_OBJECT = '/.ATTRIBUTES/VARIABLE_VALUE'  # in checkpoints of a Keras model


@dataclasses.dataclass
class Outcome:
    """Of a run.

    Attributes:
        checkpoints: file name -> {name of a variable: value}.
        events: (tag, step) -> its values, in order.
        read: the numbers of the batches that were read, a list for each start.
        calls: what hooks of the job have seen.
        why: the reason for the end that the trainer gives.
        says: the lines of the log.
        runs: how many calls of TensorFlow's session took the steps.
    """

    checkpoints: dict
    events: dict
    read: list
    calls: list
    why: str | None
    says: list = dataclasses.field(default_factory=list)
    runs: int = 0

    @property
    def last(self) -> dict:
        """The variables of the last checkpoint."""
        return list(self.checkpoints.values())[-1] if self.checkpoints else {}

    @property
    def single(self) -> str | None:
        """Why each call took one step, in the trainer's words; None: it did not say that."""
        found = [line.partition('one step a call: ')[2] for line in self.says if 'one step a call: ' in line]
        return found[0] if found else None


def of_folder(folder, read, calls, why=None, says=(), runs=0) -> Outcome:
    return Outcome(_checkpoints(folder), _events(folder), read, calls, why, list(says), runs)


def _checkpoints(folder) -> dict:
    found = {}
    for path in glob.glob(os.path.join(folder, '*.index')):
        reader = tf.train.load_checkpoint(path.removesuffix('.index'))
        names = [name for name in reader.get_variable_to_shape_map() if name != '_CHECKPOINTABLE_OBJECT_GRAPH']
        variables = {name.removesuffix(_OF_OBJECT): reader.get_tensor(name) for name in names}
        if 'estimator_global_step' in variables:  # of a Keras model
            variables['global_step'] = variables.pop('estimator_global_step')
        found[os.path.basename(path).removesuffix('.index')] = variables
    return dict(sorted(found.items(), key=lambda item: int(item[0].rpartition('-')[2])))


def _events(folder) -> dict:
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, 'events*'))):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag in _NOT_COMPARED:
                    continue
                of_value = value.simple_value
                if value.HasField('histo'):
                    of_value = value.histo.SerializeToString()
                elif value.HasField('tensor'):
                    of_value = value.tensor.SerializeToString()
                found.setdefault((value.tag, event.step), []).append(of_value)
    return found
