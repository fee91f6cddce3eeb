"""Scalars for TensorBoard, which need not be installed: TensorFlow no longer brings it, and
`tf.summary.scalar` and Keras's TensorBoard callback fail without it."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

_METADATA = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name='scalars'), data_class=1
)


class Scalars:
    """Writes scalars into one folder. An events file is made with the first of them."""

    def __init__(self, folder: str):
        self._folder = folder
        self._writer: tf.summary.SummaryWriter | None = None

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """`values`: name -> number."""
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self._folder)
        with self._writer.as_default(step):
            for name, value in values.items():
                tf.summary.write(name, tf.constant(float(value), tf.float32), metadata=_METADATA)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
