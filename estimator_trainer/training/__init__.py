"""One job, three ways to train it: `estimator`, `keras_fit`, `custom_loop`."""


def get(name: str):
    """The loop of `--loop`, a class like training.task.Loop. Imports TensorFlow."""
    if name == 'keras_fit':
        from estimator_trainer.training.keras_fit import KerasFitLoop

        return KerasFitLoop
    if name == 'custom_loop':
        from estimator_trainer.training.custom_loop import CustomLoop

        return CustomLoop
    from estimator_trainer.training.estimator import EstimatorLoop

    return EstimatorLoop
