"""How the trainer's log looks: lines with the time, on stderr, above a progress bar where there is one."""

import logging
import sys


def set_up() -> None:
    """From here on `logging.getLogger('estimator_trainer')` writes to stderr, and to nothing else."""
    handler = _Handler(sys.stderr)
    handler.setFormatter(logging.Formatter('%(asctime)s %(message)s', '%H:%M:%S'))
    logger = logging.getLogger('estimator_trainer')
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


class _Handler(logging.StreamHandler):
    """Writes lines above a progress bar, where there is one."""

    def emit(self, record):
        tqdm = sys.modules.get('tqdm')
        if tqdm is None:
            super().emit(record)
        else:
            try:
                tqdm.tqdm.write(self.format(record), file=sys.stderr)
            except Exception:  # nobody reads it any more
                self.handleError(record)
