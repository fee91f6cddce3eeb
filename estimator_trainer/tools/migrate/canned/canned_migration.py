"""What `migrate` prints and writes for a canned Estimator. Imports no TensorFlow before it migrates."""

import os
import sys
from collections.abc import Callable
from typing import Any

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import protocol
from estimator_trainer.tools.migrate.canned import readme

REPORT = 'migrate.json'
_OF_PREDICTIONS, _OF_THE_REST = 1e-6, 1e-5  # tolerances, relative to the largest number if that is above 1
_METRICS, _STEPS = 'metrics', 'weights and slots after ten more steps'
_NOT_COMPARED = {_METRICS: 'as Keras has none that equals one of this head', _STEPS: 'as dropout draws random numbers'}
_CANNOT_BE_WRITTEN = "as every example has a value, '' or -1, that stands for no value in this form"


def is_result(folder: str) -> bool:
    """Whether `migrate` has made the folder of a canned Estimator."""
    return os.path.isfile(os.path.join(folder, 'estimator', 'description.json'))


def migrate(source, to: str, keras_python: str, shown: Callable[[Any], Any]) -> int:
    """Migrates, and says what came of it. The exit code: 0, or FAILED where something differs.

    Args:
        source: conversion.CannedEstimator.
        shown: of LocalCopies.

    Raises:
        UsageError: it cannot be migrated.
    """
    from estimator_trainer.tools.migrate.canned import conversion, programs

    try:
        report = conversion.migrate(source, to, keras_python)
    except programs.CannotMigrate as error:
        raise UsageError(f'{type(source.estimator).__name__}: {error}.') from error
    print(f'{len(report["variables"])} variables of {report["kind"]} are taken over')
    for name in report['left_over']:
        print(f'left over: {name}')
    if lost := report['metrics_left_out']:
        print(f'metrics that the Keras model lacks, as Keras has none that computes the same: {", ".join(lost)}')
    ok = True
    for what, difference, tolerance in _comparisons(report):
        if difference is None:
            print(f'{what}: not compared, {_NOT_COMPARED.get(what, _CANNOT_BE_WRITTEN)}')
            continue
        print(f'{what}: differ by {difference:.1e} at most')
        if not difference <= tolerance:
            ok = False
            print(f'error: that is more than {tolerance:g}', file=sys.stderr)
    protocol.write_json(os.path.join(to, REPORT), shown({**report, 'from': source.checkpoint, 'ok': ok}))
    place = str(shown(os.path.abspath(to)))
    if ok:
        print(f'step {report["step"]}: {shown(to)}, for Keras {report["keras"]}; {readme.how_to_open(place)}')
    return exit_codes.OK if ok else exit_codes.FAILED


def migrate_back(result: str, to: str, keras_python: str, shown: Callable[[Any], Any]) -> int:
    """Writes an Estimator's checkpoint of a folder that `migrate` has made. The exit code: 0.

    Raises:
        UsageError: its model cannot be opened.
    """
    from estimator_trainer.tools.migrate.canned import back, programs

    try:
        prefix = back.migrate(result, to, keras_python)
    except programs.CannotMigrate as error:
        raise UsageError(f'--model_dir={result}: {error}.') from error
    goes_on = f'the Estimator that was migrated goes on from it with model_dir={to}'
    print(shown(f"{prefix}: an Estimator's checkpoint; {goes_on}"))
    return exit_codes.OK


def _comparisons(report):
    """(what, greatest difference, tolerance), in the order in which they are made."""
    found = report['differences']
    yield 'predictions', found['predictions'], _OF_PREDICTIONS
    yield _METRICS, found['evaluation'], _OF_THE_REST
    yield _STEPS, found['steps'], _OF_THE_REST
    for file, difference in report['reloaded'].items():
        yield f'predictions of {file}, opened by a process that has Keras 3 alone,', difference, _OF_PREDICTIONS
