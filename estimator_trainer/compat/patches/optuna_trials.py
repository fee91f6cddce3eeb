"""A trial of an Optuna study by its number.

Touches: FrozenTrial._trial_id
Without it: `sweep` cannot tell Optuna of the evaluations of a trial that another process has begun
For: `sweep`
"""

import optuna


def trial(study: optuna.Study, frozen: optuna.trial.FrozenTrial) -> optuna.Trial:
    """The trial of which Optuna gives only what it was at a moment."""
    return optuna.trial.Trial(study, frozen._trial_id)
