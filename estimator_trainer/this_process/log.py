"""How the log of a command looks: lines with the time, on stderr, above a progress bar where there is one."""

import logging
import math
import os
import sys
import time

FORMAT, TIME = '%(asctime)s %(message)s', '%H:%M:%S'


def set_up() -> None:
    """Makes `logging.getLogger('estimator_trainer')` write to stderr, and to nothing else."""
    handler = Handler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT, TIME))
    logger = logging.getLogger('estimator_trainer')
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


def wants_bar(progress: str) -> bool:
    """Whether `--progress` means a bar, here and now."""
    if progress != 'auto':
        return progress == 'on'
    return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 0


def duration(seconds: float) -> str:
    """3725 -> '1h02m'."""
    seconds = int(round(seconds))
    hours, minutes = divmod(seconds // 60, 60)
    if hours:
        return f'{hours}h{minutes:02}m'
    return f'{minutes}m{seconds % 60:02}s' if minutes else f'{seconds}s'


def day(seconds: float | None) -> str:
    """'2026-11-22 23:24:36 UTC', for seconds since the epoch; – where they are not known."""
    return '–' if not seconds else time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(seconds))


def number(value: float | None) -> str:
    """About four digits: 0.9674, 12.35, 9,642, 1.2e-07."""
    if value is None:
        return '–'
    if not math.isfinite(value):
        return str(value)
    if float(value).is_integer() and abs(value) < 1e15:
        return f'{int(value):,}'
    if abs(value) >= 1000:
        return f'{value:,.0f}'
    return f'{value:.3g}' if abs(value) < 0.001 else f'{value:#.4g}'.rstrip('.')


class Handler(logging.StreamHandler):
    """Writes lines above a progress bar, where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm = sys.modules.get('tqdm')
        if tqdm is None:
            super().emit(record)
        else:
            try:
                tqdm.tqdm.write(self.format(record), file=sys.stderr)
            except Exception:  # nobody reads it any more
                self.handleError(record)
