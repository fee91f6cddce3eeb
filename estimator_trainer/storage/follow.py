"""Fetches, for as long as a run lives, what other tasks send to the store and the task of this folder reads.

`SignOfLife` says how an evaluator sees that the chief lives.
"""

import contextlib
import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable

from estimator_trainer import exit_codes
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.run_dir import files, protocol, removal, training_file
from estimator_trainer.storage import fetch, names, snapshot
from estimator_trainer.storage.sender import REFUSED_SECS, Patience, RunEnd, ScratchFails
from estimator_trainer.storage.share import Share
from estimator_trainer.storage.store import Store, StoreError, Version

_OF_CHECKPOINT = removal.Named(names.PART.pattern)
_log = logging.getLogger('estimator_trainer')
_LOOK_SECS = 1
_LOGS_SECS = 30  # between two looks at the files that grow
_LIFE_SECS = 1  # between two signs of life while the store does not answer
_LONG_SECS = 3  # a look that takes longer fetches a checkpoint, or waits for the store
_LONGEST_PAUSE_SECS = 10  # when the store has failed
_KEPT = 2  # checkpoints: the newest, and the one that may be evaluated now


class SignOfLife:
    """What an evaluator gets as training.json: the chief's, joined with its lease. Pure: time is an argument.

    If training.json does not change for --lost_peer_secs, an evaluator takes the chief for lost. In the store that file
    changes more rarely, and not at all while a large checkpoint is sent. But the chief's lease is renewed for as long
    as the chief lives. So the evaluator's training.json changes when the lease does.

    Args:
        fresh_secs: a chief whose lease had not changed for so long when it was last looked at may be gone.
    """

    def __init__(self, fresh_secs: float):
        self._fresh_secs = fresh_secs
        self._training: dict = {}
        self._lease: tuple = ()  # the one heard last: token, beat
        self._heard_at = self._changed_at = 0.0
        self._beat, self._lives = 0, False

    def hear(self, lease: dict, training: dict, now: float) -> None:
        """What the store has: first the lease was read, then training.json.

        A training.json of another generation than the lease's is one that an earlier chief has left: it tells of no
        life.
        """
        beat = lease.get('token'), lease.get('beat')
        is_current = bool(lease.get('gang')) and training.get('generation') == lease['gang']
        self._lives = is_current and not _is_over(training)
        if beat != self._lease:
            self._changed_at = now
            self._beat += self._lives
        self._training, self._lease, self._heard_at = training, beat, now

    def wait(self) -> None:
        """Nothing can be heard now, for a reason that is not the chief's."""
        if self._lives and self._heard_at - self._changed_at < self._fresh_secs:
            self._beat += 1

    def content(self) -> dict:
        """What training.json is to hold; {}: nothing is known yet."""
        return {**self._training, 'beat': self._beat} if self._lives else self._training


class Follower:
    """A context in which a thread fetches what the share follows.

    Args:
        folder: the run's.
        config: --max_unpushed_secs is how long an evaluator waits for a store that does not answer. The other tasks
            need it less.

    Attributes:
        verdict: why the run should end; None while all is well.
        newest: the checkpoint that was fetched last.
        fetched_bytes: so far.
    """

    def __init__(
        self,
        store: Store,
        folder: str,
        share: Share,
        config: TrainerConfig,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._store, self._folder, self._share, self._clock = store, folder, share, clock
        self._evaluates = share.role == 'evaluator'
        away_secs, refused_secs = (config.max_unpushed_secs, REFUSED_SECS) if self._evaluates else (math.inf, math.inf)
        self._patience = Patience(away_secs, refused_secs, 'fetched')
        self._here: dict[str, Version] = {}  # what was fetched, and is here
        self._recent: list[str] = []  # checkpoints, oldest first
        self._life, self._lock = SignOfLife(config.lost_peer_secs / 2), threading.Lock()
        self._logs_at, self._looked_at = -math.inf, clock()
        self._over = threading.Event()
        self.verdict: RunEnd | None = None
        self.newest: str | None = None
        self.fetched_bytes = 0

    def __enter__(self) -> 'Follower':
        if self._share.follows:
            threading.Thread(target=self._run, name='follower', daemon=True).start()
        if self._evaluates:
            threading.Thread(target=self._live_on, name='sign of life', daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Does not wait: a request may hang, and the process is about to end."""
        self._over.set()

    def begin(self) -> None:
        """Fetches what the task reads first, the newest checkpoint among it. Raises StoreError, OSError."""
        if self._share.follows_checkpoint:
            self._follow_checkpoint(names.POINTER)
        self.look()

    def look(self) -> None:
        """Fetches what is new. Raises StoreError, OSError."""
        # training.json is read before the checkpoint, and written after it: what it speaks of is here.
        lease, training = (self._json(names.LEASE), self._json(names.TRAINING)) if self._evaluates else ({}, {})
        source = self._share.follows_checkpoint
        has_checkpoint = source is None or self._follow_checkpoint(source)
        logs_are_due = _is_over(training) or self._clock() >= self._logs_at
        for name in self._share.follows:
            if logs_are_due or not names.is_log(name):
                self._follow(name)
        if logs_are_due:
            self._logs_at = self._clock() + _LOGS_SECS
        self._looked_at = self._clock()
        if self._evaluates and (has_checkpoint or not _is_over(training)):
            with self._lock:
                self._life.hear(lease, training, self._clock())
                self._write_training()

    def _run(self) -> None:
        pause: float = _LOOK_SECS
        while not self._over.wait(pause) and self.verdict is None:
            try:
                self.look()
            except StoreError as error:
                self._failed(error)
                pause = min(self._patience.pause, _LONGEST_PAUSE_SECS)
            except OSError as error:
                self._failed(ScratchFails(error))
                pause = min(self._patience.pause, _LONGEST_PAUSE_SECS)
            except Exception as error:  # a mistake of ours: the task must not wait for it
                _log.exception('fetching has failed')
                self.verdict = RunEnd(exit_codes.CANNOT_WRITE, f'{type(error).__name__}: {error}')
            else:
                pause = _LOOK_SECS
                said = self._patience.worked(self._clock())
                if said:
                    _log.info('%s', said)

    def _failed(self, error: StoreError) -> None:
        warning, verdict = self._patience.failed(error, self._clock())
        if verdict:
            code = exit_codes.FILES_AWAY if verdict.code == exit_codes.NOT_SENT else verdict.code
            self.verdict = RunEnd(code, verdict.why)
        if warning:
            _log.warning('WARNING: %s', warning)

    def _follow(self, name: str) -> None:
        """Makes a small file equal to the store's."""
        found = self._store.read(name)
        path = os.path.join(self._folder, name)
        if found is None:
            self._here.pop(name, None)
            removal.file(path, removal.Written([path]))  # by this process, or one before it: it is the store's
        elif found[1] != self._here.get(name):
            _write(path, found[0])
            self._here[name] = found[1]

    def _follow_checkpoint(self, source: str) -> bool:
        """Fetches the checkpoint that the object `source` names, and then `source`. False: that one is gone or is being
        replaced; it is time for another look."""
        found = self._store.read(source)
        if found is None or found[1] == self._here.get(source):
            return True
        content, version = found
        checkpoint = names.started_from(content) if source == names.START else names.named_by(content)
        try:
            if checkpoint and not self._fetch_checkpoint(checkpoint):
                return False
        except fetch.Moved:
            return False
        pointer = os.path.join(self._folder, names.POINTER)
        if checkpoint:
            _write(pointer, names.pointer_to_last([checkpoint]))
        else:
            removal.file(pointer, removal.Named(names.POINTER))
        if source != names.POINTER:
            _write(os.path.join(self._folder, source), content)
        self._here[source] = version
        self._remove_old()
        return True

    def _fetch_checkpoint(self, checkpoint: str) -> bool:
        """Whether all of it, of one save, is here."""
        parts = {name: part for name, part in self._store.list().items() if names.checkpoint_of(name) == checkpoint}
        if not names.is_whole(checkpoint, parts):
            return False
        stale = [name for name in parts if self._here.get(name) != parts[name].version]
        for name in sorted(stale, key=names.is_last_of_unit):
            fetch.download(self._store, name, os.path.join(self._folder, name), parts[name])
            self._here[name] = parts[name].version
            self.fetched_bytes += parts[name].size
        if stale and not snapshot.is_of_one_save(os.path.join(self._folder, checkpoint)):
            for name in parts:
                self._here.pop(name, None)
            return False
        self._recent = [name for name in self._recent if name != checkpoint] + [checkpoint]
        self.newest = checkpoint
        return True

    def _remove_old(self) -> None:
        """Removes checkpoints that nobody here reads any more."""
        kept: set[str | None] = {*self._recent[-_KEPT:]}
        with (
            contextlib.suppress(FileNotFoundError),
            open(os.path.join(self._folder, names.LAST_EVALUATION), 'rb') as file,
        ):
            kept.add(names.owed_by(file.read()))
        for name in sorted(os.listdir(self._folder), key=names.is_last_of_unit, reverse=True):
            checkpoint = names.checkpoint_of(name)
            if checkpoint and checkpoint not in kept and names.is_of_run(checkpoint):
                removal.file(os.path.join(self._folder, name), _OF_CHECKPOINT)
                self._here.pop(name, None)

    def _live_on(self) -> None:
        """Keeps the evaluator from taking the chief for lost while nothing can be known of it."""
        while not self._over.wait(_LIFE_SECS) and self.verdict is None:
            if self._clock() - self._looked_at >= _LONG_SECS:
                with self._lock, contextlib.suppress(OSError):
                    self._life.wait()
                    self._write_training()

    def _write_training(self) -> None:
        path, content = os.path.join(self._folder, names.TRAINING), self._life.content()
        if content and content != protocol.read_json(path):
            protocol.write_json(path, content)

    def _json(self, name: str) -> dict:
        found = self._store.read(name)
        try:
            value = json.loads(found[0]) if found else {}
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def _write(path: str, content: bytes) -> None:
    """Whole or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with files.replacing(path) as temporary, files.create(temporary, 'wb') as file:
        file.write(content)


def _is_over(training: dict) -> bool:
    """Whether training has ended or was stopped, says training.json."""
    return training.get('state') in (training_file.ENDED, training_file.STOPPED)
