"""`python -m estimator_trainer track`: a model_dir -> its trackers and an exit code. Imports no TensorFlow."""

import contextlib
import dataclasses
import os
import sys
import time

from estimator_trainer import exit_codes
from estimator_trainer.config import flags, urls
from estimator_trainer.config.declaration import flag
from estimator_trainer.errors import UsageError
from estimator_trainer.monitoring import trackers
from estimator_trainer.run_dir import file_names, run_verdict
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.storage import needs
from estimator_trainer.tools import command_line, local_copies
from estimator_trainer.tools.status import refuse_where_no_run_is
from estimator_trainer.tools.track import sending
from estimator_trainer.tools.track.adapters import FAILED, FINISHED, KILLED, RUNNING, TrackerUnavailable

USAGE = """\
usage: python -m estimator_trainer track MODEL_DIR [--to=TRACKER]... [--follow]

Sends a run to trackers: its params, its metrics by step, its exports and how it ended. Sends what they
have not got yet, so that the same command sends nothing twice, and goes on where another one, or the
run itself (--track), was interrupted. Reads the model_dir, also while it is trained, and writes into
it what was sent (track/). MODEL_DIR may be in a store (s3://, gs://, az://).

Exit codes: 0 if everything was sent, 1 if not, 64 for a mistake in the command.
"""
_EVERY_SECS = 15
_STATUS = {
    run_verdict.DONE: FINISHED,
    run_verdict.STOPPED: KILLED,
    run_verdict.FAILED: FAILED,
    run_verdict.LOST: FAILED,
}  # of the others nothing says that they have ended


@dataclasses.dataclass(frozen=True)
class TrackFlags:
    model_dir: tuple = command_line.model_dirs()
    to: tuple = flag(
        (),
        'mlflow:URI, wandb or tensorboard-hparams, as --track of the trainer. Repeatable.',
        group='The tracker',
        repeated=True,
        unset='what --track of the run says',
    )
    follow: bool = flag(
        False, 'Go on until the run no longer lives.', group='The tracker', why='a run with --track does it itself'
    )


def main(argv) -> int:
    """Runs the command line `argv`, without program name. The exit code, as USAGE lists them."""
    return command_line.run(
        argv,
        USAGE,
        TrackFlags,
        lambda: _track(*flags.parse_with_words(TrackFlags, ['track', *argv])),
        {sending.AlreadyTracked: exit_codes.FAILED},
    )


def _track(values, words) -> int:
    paths = [*words, *values.model_dir]
    if len(paths) != 1:
        raise UsageError(f'{" ".join(paths) or "track"}: name one model_dir.')
    with local_copies.LocalCopies() as copies, contextlib.ExitStack() as held:
        given = copies.run(paths[0], 'MODEL_DIR', needs.of_tracking, writes=True)
        folder = os.path.abspath(os.path.expanduser(given))
        run = RunFolder(folder)
        refuse_where_no_run_is(run, given)
        if not os.path.exists(run.file(file_names.CONFIG)):
            raise UsageError(f'{paths[0]}: has no config.json; only runs of this trainer can be sent.')
        targets = trackers.targets(values.to) if values.to else _targets_of_the_run(run)
        if not targets:
            raise UsageError(f'--to is missing: the run has no --track; name a tracker: {trackers.SHAPES}.')
        if urls.is_url(paths[0]) and run.holders:
            for target in {*targets} & {*_targets_of_the_run(run)}:  # the run holds no lock that is seen elsewhere
                raise sending.AlreadyTracked(f'the run sends to {target} itself; wait for its end')
        about = {'address': copies.shown(folder), 'written': lambda: copies.send_changes(folder)}
        senders = [held.enter_context(sending.sender(folder, target, print, **about)) for target in targets]
        while True:
            run = RunFolder(folder)
            kind = run.verdict(time.time()).kind
            last = not values.follow or kind != run_verdict.ALIVE
            times = (run.report.get('ended'), run.training.get('time'))  # when it ended, as far as its files say
            at = next((value for value in times if type(value) in (int, float)), time.time())
            failed = [_send(each, _STATUS.get(kind, RUNNING) if last else None, at) for each in senders]
            if last:
                return exit_codes.FAILED if any(failed) else exit_codes.OK
            time.sleep(_EVERY_SECS)
            copies.refresh(folder)


def _targets_of_the_run(run: RunFolder) -> tuple[trackers.Target, ...]:
    return trackers.targets(run.flags.get('track') or ())


def _send(sender: sending.TrackerSender, status: str | None, at: float) -> bool:
    """Whether it has failed."""
    try:
        sender.send(status, at)
    except TrackerUnavailable as error:
        print(f'{sender.target}: {error}; not everything is sent', file=sys.stderr)
        return True
    if status is not None:
        print(f'{sender.target}: everything is sent')
    return False
