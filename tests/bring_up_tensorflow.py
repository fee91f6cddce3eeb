"""Imported before a test that uses TensorFlow in its own process: in the order of `estimator_trainer.main`."""

from estimator_trainer import compat

tf = compat.bring_up()
# Two replicas for MirroredStrategy; this must be said before TensorFlow does any work.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices('CPU')[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
