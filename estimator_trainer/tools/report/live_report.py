"""`python -m estimator_trainer.tools.report.live_report --live|--last MODEL_DIR`: it writes a run's page."""

import os
import sys

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.monitoring import report_page


def main(argv: list[str]) -> int:
    """Writes MODEL_DIR/report.html. With --live it takes as little as it can from the processes that train."""
    how, model_dir = argv
    if how == '--live':
        os.nice(19)
    from estimator_trainer.tools.report import report_command

    try:
        report_command.write([model_dir], os.path.join(model_dir, report_page.NAME))
    except UsageError as error:
        print(error, file=sys.stderr)
        return exit_codes.USAGE
    return exit_codes.OK


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
