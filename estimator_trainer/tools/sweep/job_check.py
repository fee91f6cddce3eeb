"""A process of its own that loads the job of a sweep: it is somebody else's code, and may import TensorFlow.

    python -m estimator_trainer.tools.sweep.job_check PARAMS FLAG…

PARAMS is a JSON list of texts name=value that a trial may give its job, FLAG… are the flags of the trainer. Writes a
line of JSON to stdout: the job's `params`, {name: default}, and `best`, its best_metric and best_mode. The exit code is
not 0 if one of PARAMS cannot be.
"""

import json
import os
import sys

from estimator_trainer import exit_codes, jobs
from estimator_trainer.config import trainer_config
from estimator_trainer.errors import DatasetError, UsageError
from estimator_trainer.training import plan as planning


def main(argv) -> int:
    texts, flags = json.loads(argv[0]), argv[1:]
    try:
        config = trainer_config.parse(['sweep', *flags])
        plan = planning.with_job(planning.make(config, os.environ), early=True)
        if plan.job is None:  # its modules import TensorFlow
            from estimator_trainer import compat

            compat.bring_up()
            plan = planning.with_job(plan)
        job = plan.job
        for text in texts:
            if text.partition('=')[0] in job.params:
                _check(job, config, text)
        print(json.dumps({'params': dict(job.params), 'best': [job.best_metric, job.best_mode]}), flush=True)
        return exit_codes.OK
    except (UsageError, jobs.JobError) as error:
        print(f'error: {error}', file=sys.stderr)
        return exit_codes.USAGE
    except DatasetError as error:
        print(f'error: {error}', file=sys.stderr)
        return error.exit_code


def _check(job, config, text) -> None:
    try:
        jobs.checked_params(job, [*config.param, text])
    except UsageError as error:
        raise UsageError(f'--param_space: {text}: {error}') from error


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
