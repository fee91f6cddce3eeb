"""A job of the corpus, and what is expected of it."""

import dataclasses
from collections.abc import Callable

STEPS = 21


@dataclasses.dataclass(frozen=True)
class Case:
    """A job.

    Attributes:
        name: of the function that makes the job.
        axis: of the corpus, the name of the module.
        make: () -> estimator_trainer.jobs.Job.
        single: what the trainer says of why each call takes one step, or a part of it; '' where this is up to the
            TensorFlow. None: a call takes several.
        steps: --max_steps of one run after another in the same model_dir.
        why: the reason for its end that training.json gives.
        resumes: whether a resumed run computes the same. A kernel's random state is in no checkpoint, nor is
            what a hook counts.
        replicas: whether two replicas may train it.
        counts_by_one: whether each run of the step adds one to the global step. Upstream's hooks look a step early, so
            that it depends on chance which of its steps have summaries where this is not so.
        events: whether the summaries are compared.
        sample: whether it is in the sample of the gate.
        updates: whether a step changes a variable by its batch and without an optimizer. Replicas average the changes,
            and batches that are accumulated change it one after another.
        warm_start: whether it begins with weights of an earlier checkpoint.
    """

    name: str
    axis: str
    make: Callable
    single: str | None = None
    steps: tuple = (STEPS,)
    why: str = 'max_steps'
    resumes: bool = True
    replicas: bool = True
    counts_by_one: bool = True
    events: bool = True
    sample: bool = False
    warm_start: bool = False
    updates: bool = False


CASES: dict[str, Case] = {}


def add(axis, name, make, **expected) -> None:
    """Registers a job. `axis`: the name of a module."""
    if name in CASES:
        raise ValueError(f'two cases are called {name}')
    CASES[name] = Case(name, axis.rpartition('.')[2], make, **expected)


def case(**expected):
    """Registers a function that makes a Job, by its name."""

    def register(make):
        add(make.__module__, make.__name__, make, **expected)
        return make

    return register
