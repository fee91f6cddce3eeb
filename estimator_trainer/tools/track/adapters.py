"""The adapter of each tracker. An adapter imports its library when it is made."""

from collections.abc import Callable

from estimator_trainer.monitoring import trackers
from estimator_trainer.tools.track.tracker import Tracker, TrackerUnavailable, words_of


def make(target: trackers.Target) -> Tracker:
    """The adapter of a tracker. Raises TrackerUnavailable where its library cannot be used."""
    adapter = imported(target)
    return adapter(target.uri) if target.uri else adapter()


def imported(target: trackers.Target) -> Callable[..., Tracker]:
    """The class of an adapter, with its library. Raises TrackerUnavailable where that cannot be imported."""
    try:
        if target.kind == trackers.MLFLOW:
            from estimator_trainer.tools.track.mlflow_tracker import MlflowTracker

            return MlflowTracker
        if target.kind == trackers.WANDB:
            from estimator_trainer.tools.track.wandb_tracker import WandbTracker

            return WandbTracker
        from estimator_trainer.tools.track.hparams_tracker import HparamsTracker

        return HparamsTracker
    except Exception as error:
        raise TrackerUnavailable(words_of(error)) from error
