"""A result that is an object in a store. Its parts are in the user's cache until it is sent, so that the same command
goes on after a kill."""

import contextlib
import glob
import hashlib
import json
import os
from collections.abc import Iterator

from estimator_trainer.config import urls
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import removal
from estimator_trainer.storage import connection, store
from estimator_trainer.tools.predict import predict_plan as plans


class StoreResult:
    """The object. Nothing but its place was asked for yet."""

    def __init__(self, url: str, remote: store.Store, scratch: str):
        self._url, self._store, self._scratch = url, remote, scratch
        self._name = urls.name(url).rpartition('/')[2]

    def path(self, plan: plans.PredictPlan) -> str:
        """Where a result of this plan is written, or lies since a command that could not send it. The folder is there.

        Raises:
            OSError: it cannot be made.
        """
        decides = {name: value for name, value in plans.to_json(plan).items() if name != 'copies'}
        digest = hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:12]
        folder = os.path.join(self._scratch, digest)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return os.path.join(folder, self._name)

    def check(self) -> None:
        """Raises UsageError if the object is there already, StoreError."""
        if self._store.head(self._name):
            raise UsageError(f'--out={self._url}: is there already; remove it, or name another file.')

    def send(self, path: str) -> None:
        """Raises as `check`, and OSError. If it raises, the file stays."""
        self.check()
        self._store.put_file(self._name, path)
        removal.file(path, removal.Written([path]))

    def remove_empty(self) -> None:
        """Removes the folders in the cache, unless something is in them."""
        for folder in [*glob.glob(f'{glob.escape(self._scratch)}/*/'), self._scratch]:
            with contextlib.suppress(OSError):
                removal.empty_folder(folder, removal.Named(r'[0-9a-f]{12}|.*-[0-9a-f]{12}'))


@contextlib.contextmanager
def of(out: str, environ) -> Iterator[StoreResult | None]:
    """A context with the result that --out names; None if that is no URL.

    Raises:
        UsageError: the URL is none, the object is there already, or the store refuses to be written to.
        store.StoreUnavailable: the store does not answer.
    """
    if not urls.is_url(out):
        yield None
        return
    urls.check(out, '--out')
    folder = urls.normal(out).rpartition('/')[0]
    urls.check(folder, '--out')
    result = StoreResult(out, connection.connect(folder, environ, '--out'), urls.scratch_dir(out, environ))
    result.check()
    try:
        yield result
    finally:
        result.remove_empty()
