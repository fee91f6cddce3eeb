"""One job, three ways to train it: `estimator`, `keras_fit`, `custom_loop`."""


def get(name: str):
    """The loop of `--loop`, a class like loops.task.Loop. Imports TensorFlow."""
    if name == 'keras_fit':
        from estimator_trainer.loops.keras_fit import KerasFitLoop
        return KerasFitLoop
    if name == 'custom_loop':
        from estimator_trainer.loops.custom_loop import CustomLoop
        return CustomLoop
    from estimator_trainer.loops.estimator import EstimatorLoop
    return EstimatorLoop
