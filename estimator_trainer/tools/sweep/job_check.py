"""A process of its own that loads the job of a sweep: it is somebody else's code, and may import TensorFlow.

    python -m estimator_trainer.tools.sweep.job_check PARAMS FLAG…

PARAMS is a JSON list of texts name=value that a trial may give its job, FLAG… are the flags of the trainer. Writes a
line of JSON to stdout: the job's `params`, {name: default}, and `best`, its best_metric and best_mode. The exit code is
not 0 if one of PARAMS cannot be.
"""

import json
import os
import sys

from estimator_trainer import config as trainer_config
from estimator_trainer import exit_codes, jobs
from estimator_trainer.errors import DatasetError, UsageError
from estimator_trainer.jobs import loading
from estimator_trainer.training import plan as planning


def main(argv) -> int:
    texts, flags = json.loads(argv[0]), argv[1:]
    try:
        config = trainer_config.parse(['sweep', *flags])
        planning.make(config, os.environ)
        ready = jobs.prepare(config, early=True)
        if ready is None:  # its modules import TensorFlow
            from estimator_trainer import compat

            compat.bring_up()
            ready = jobs.prepare(config)
        for text in texts:
            if text.partition('=')[0] in ready.job.params:
                _check(ready, config, text)
        best = [ready.job.best_metric, ready.job.best_mode]
        print(json.dumps({'params': dict(ready.job.params), 'best': best}), flush=True)
        return exit_codes.OK
    except (UsageError, jobs.JobError) as error:
        print(f'error: {error}', file=sys.stderr)
        return exit_codes.USAGE
    except DatasetError as error:
        print(f'error: {error}', file=sys.stderr)
        return exit_codes.NO_DATA


def _check(ready, config, text) -> None:
    params = loading.typed_params(ready.job.params, [*config.param, text])
    if ready.job.check is not None:
        try:
            ready.job.check(params)
        except ValueError as error:
            raise UsageError(f'--param_space: {text}: {error}') from error


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
