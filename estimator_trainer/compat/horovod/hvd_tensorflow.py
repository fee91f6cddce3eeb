"""`horovod.tensorflow`: Horovod's names, with its arguments and defaults. Those of devices and of process sets have no
effect; a name that is not here is an AttributeError."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_trainer.compat.horovod import collectives, distributed, packing, world

__all__ = """Average BroadcastGlobalVariablesHook Compression DistributedGradientTape DistributedOptimizer Max Min
    Product Sum allgather allreduce broadcast broadcast_global_variables broadcast_variables ccl_built cross_rank
    cross_size cuda_built ddl_built gloo_built gloo_enabled grouped_allreduce init is_homogeneous is_initialized
    local_rank local_rank_op local_size local_size_op mpi_built mpi_enabled mpi_threads_supported nccl_built rank
    rank_op rocm_built shutdown size size_op""".split()

v1 = tf.compat.v1
init, shutdown, is_initialized = world.init, world.shutdown, world.is_initialized
Average, Sum, Min, Max, Product = packing.AVERAGE, packing.SUM, packing.MIN, packing.MAX, packing.PRODUCT


def rank() -> int:
    """The number of this process, from 0."""
    return world.place().rank


def size() -> int:
    """The number of processes."""
    return world.place().size


def local_rank() -> int:
    """The number of this process on its host."""
    return world.place().local_rank


def local_size() -> int:
    """The number of processes on its host."""
    return world.place().local_size


def cross_rank() -> int:
    """The number of this host."""
    return world.place().cross_rank


def cross_size() -> int:
    """The number of hosts."""
    return world.place().cross_size


def is_homogeneous() -> bool:
    """Whether every host has as many processes."""
    hosts = world.place().hosts
    return len({hosts.count(host) for host in hosts}) == 1


def _as_tensor(function: Callable[[], int]) -> Callable[..., tf.Tensor]:
    return lambda *args, name=None, **kwargs: tf.constant(function(), tf.int32, name=name or function.__name__)


rank_op, size_op, local_rank_op, local_size_op = map(_as_tensor, (rank, size, local_rank, local_size))


def _no(*args: Any, **kwargs: Any) -> bool:
    """Arrays travel in shared memory and over TCP: none of the libraries that Horovod asks about is used."""
    return False


mpi_threads_supported = mpi_enabled = mpi_built = gloo_enabled = gloo_built = _no
nccl_built = ddl_built = ccl_built = cuda_built = rocm_built = _no


class Compression:
    """What becomes of a gradient while it travels."""

    class none:
        """Nothing."""

        @staticmethod
        def compress(tensor: Any) -> tuple[Any, Any]:
            return tensor, None

        @staticmethod
        def decompress(tensor: Any, context: tf.DType | None) -> Any:
            return tensor

    class fp16:
        """Floats have 16 bits."""

        @staticmethod
        def compress(tensor: Any) -> tuple[Any, Any]:
            tensor = tf.convert_to_tensor(tensor)
            return (tf.cast(tensor, tf.float16), tensor.dtype) if tensor.dtype.is_floating else (tensor, None)

        @staticmethod
        def decompress(tensor: Any, context: tf.DType | None) -> Any:
            return tensor if context is None else tf.cast(tensor, context)


def _operation(op: str | None, average: bool | None) -> str:
    if op is None:
        return Sum if average is False else Average
    if op not in (Average, Sum, Min, Max, Product):
        raise ValueError(f'op={op!r}: give hvd.Average, Sum, Min, Max or Product')
    return op


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = '',
    device_sparse: str = '',
    compression: Any = Compression.none,
    op: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    **kwargs: Any,
) -> Any:
    """The tensor, reduced over all ranks; IndexedSlices get the rows of all ranks. Its gradient is reduced likewise."""
    operation = _operation(op, average)

    def reduced(given: Any) -> Any:
        given = given * tf.cast(prescale_factor, given.dtype) if prescale_factor != 1.0 else given
        (total,) = distributed.gradients_of_all([given], operation, compression, False, name)
        return total * tf.cast(postscale_factor, total.dtype) if postscale_factor != 1.0 else total

    if isinstance(tensor, tf.IndexedSlices):
        return reduced(tensor)
    tensor = tf.convert_to_tensor(tensor)
    if not tensor.dtype.is_floating or operation not in (Average, Sum):
        return reduced(tensor)

    @tf.custom_gradient
    def differentiable(given: Any) -> tuple[Any, Callable[..., Any]]:
        return reduced(tf.identity(given)), reduced

    return differentiable(tensor)


def grouped_allreduce(
    tensors: Iterable[Any],
    average: bool | None = None,
    device_dense: str = '',
    device_sparse: str = '',
    compression: Any = Compression.none,
    op: str | None = None,
    **kwargs: Any,
) -> list[Any]:
    """Each of the tensors, reduced over all ranks, in one operation."""
    return distributed.gradients_of_all(list(tensors), _operation(op, average), compression, False)


def allgather(tensor: Any, name: str | None = None, **kwargs: Any) -> tf.Tensor:
    """The rows of all ranks, in the order of the ranks."""
    return collectives.allgather(tensor, name)


def broadcast(tensor: Any, root_rank: int, name: str | None = None, **kwargs: Any) -> tf.Tensor:
    """The tensor of rank `root_rank`."""
    return collectives.broadcast_all([tf.convert_to_tensor(tensor)], root_rank, name)[0]


def broadcast_variables(variables: Iterable[tf.Variable], root_rank: int, **kwargs: Any) -> tf.Operation:
    """Gives the variables the values that they have in rank `root_rank`."""
    return distributed.broadcast_variables(variables, root_rank)


def broadcast_global_variables(root_rank: int) -> tf.Operation:
    """Gives all global variables of the graph the values that they have in rank `root_rank`.

    Raises:
        RuntimeError: there is no graph, because operations run at once.
    """
    if tf.executing_eagerly():
        raise RuntimeError(
            'hvd.broadcast_global_variables() needs a graph; use hvd.broadcast_variables(variables, root_rank=0).'
        )
    return broadcast_variables(v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Gives all global variables the values that they have in rank `root_rank`, when a session is created."""

    def __init__(self, root_rank: int, device: str = '') -> None:
        self.root_rank, self.device, self.bcast_op = root_rank, device, None

    def begin(self) -> None:
        if self.bcast_op is None or self.bcast_op.graph is not v1.get_default_graph():
            self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
        session.run(self.bcast_op)


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = '',
    device_sparse: str = '',
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: str | None = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    **kwargs: Any,
) -> Any:
    """An optimizer of TensorFlow 1 or of Keras, with the gradients of all ranks; those of a step travel together.

    Args:
        sparse_as_dense: IndexedSlices travel as whole tensors.
        backward_passes_per_step: so many gradients are added up before they travel and are applied.
        average_aggregated_gradients: they are then divided by their number.
        gradient_predivide_factor: without effect: the average is the same.
    """
    operation = _operation(op, None)

    def reduce(gradients: Sequence[Any]) -> list[Any]:
        return distributed.gradients_of_all(gradients, operation, compression, sparse_as_dense)

    return distributed.make_optimizer(
        optimizer, name, use_locking, backward_passes_per_step, average_aggregated_gradients, reduce
    )


def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = '',
    device_sparse: str = '',
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: str | None = Average,
    gradient_predivide_factor: float = 1.0,
    **kwargs: Any,
) -> distributed.DistributedTape:
    """A tape whose gradient() gives the gradients of all ranks, which travel together."""
    operation = _operation(op, None)
    return distributed.DistributedTape(
        gradtape, lambda gradients: distributed.gradients_of_all(gradients, operation, compression, sparse_as_dense)
    )
