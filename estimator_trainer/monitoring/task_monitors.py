"""What others see of a run while a task trains it: its trackers, its metrics and its page."""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator

from estimator_trainer import exit_codes
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.monitoring import port, report_page, run_state, senders, server
from estimator_trainer.run_dir import file_names, locks

_log = logging.getLogger('estimator_trainer')


@contextlib.contextmanager
def monitored(config: TrainerConfig, task: str, is_chief: bool, writes_page: bool) -> Iterator[Callable[[int], int]]:
    """While a task trains: sends the run to its trackers, serves its metrics and has its page written, if this task has
    to. A supervisor of this machine sends the run in place of the chief.

    Args:
        task: as in `worker:0`, or `trainer`.
        writes_page: whether this task has the page written, if --report wants one.

    Yields:
        A function that is told the exit code of the task at its end, and returns it.
    """
    model_dir, pages = config.model_dir, None
    if writes_page and report_page.is_on(config.report, os.environ, _log.info):
        pages = report_page.Pages(model_dir, lambda text: _log.warning('WARNING: %s', text))
    supervised = locks.is_held(os.path.join(model_dir, file_names.SUPERVISOR_LOCK))
    sending = senders.for_run(config.track if is_chief and not supervised else (), model_dir)
    metrics: contextlib.AbstractContextManager = contextlib.nullcontext()
    if is_chief and config.metrics_port:
        listener, began = port.listen(config.metrics_port), time.time()
        metrics = server.of_run(listener, lambda: run_state.of_process(model_dir, task, began), _log.info)
    codes: list[int] = []

    def ends(code: int) -> int:
        sending.last(code)
        codes.append(code)
        return code

    has_ended = False
    try:
        with sending, metrics, pages or contextlib.nullcontext():
            sending.follow(_log.info)
            yield ends
            has_ended = True
        if pages and codes and not exit_codes.was_stopped(codes[0]):  # its time to leave is short
            pages.last(warns=codes[0] == exit_codes.OK)
    except KeyboardInterrupt:
        if not has_ended:
            raise  # what comes later does not change the exit code
