"""What a scratch folder knows of the store: `sent.json` beside the run. Written after each change of the store.

url      of the store
token    of the lease under which the run in the folder was fetched or made; null while it is being fetched
claims   token -> whether the run in the folder belongs to that lease: of leases that may have been written since. A
         process learns only from the answer of the store whether it has the lease, and it may end before.
boot     id of the machine since its start, when the folder was last known to hold whole files; '?': it does not say
sent     name -> {digest, e_tag, number}: the objects that equal a local file, or did; digest null while one is sent
"""

import contextlib
import os
from collections.abc import Collection
from typing import Any

from estimator_trainer.run_dir import locks, protocol
from estimator_trainer.storage.store import Object, Version

NAME = 'sent.json'


class ScratchState:
    """Read from the folder when it is made. Raises OSError: the file cannot be read now, so that nobody knows.

    Attributes:
        path: of the file.
        is_new: the folder was not used for this URL before.
        is_damaged: a file of this name is there, and is no JSON, as after the machine has lost its power.
        is_of_others: a file of this name is there, and no trainer has written it.
        boot: as in the file; '' where it has none.
    """

    def __init__(self, folder: str, url: str):
        self.path, self._url = os.path.join(folder, NAME), url
        found: dict[str, Any] = {}
        with contextlib.suppress(FileNotFoundError, ValueError):
            found = protocol.read_object(self.path)
        self.is_damaged = os.path.lexists(self.path) and not found
        self.is_of_others = os.path.lexists(self.path) and not {'url', 'sent'} <= set(found)
        self.is_new = found.get('url') != url
        found = {} if self.is_new else found
        self.token: str | None = found.get('token')
        self.boot: str = found.get('boot') or ''
        self._claims: dict[str, bool] = found.get('claims') or {}
        self._sent: dict[str, dict] = found.get('sent') or {}

    def save(self) -> None:
        """Raises OSError."""
        known = {'url': self._url, 'token': self.token, 'claims': self._claims, 'boot': self.boot}
        entry = {**known, 'sent': self._sent}
        protocol.write_json(self.path, entry, durable=True)

    @property
    def tokens(self) -> list[str]:
        """Of the leases that only a process of this folder can have written."""
        return [*([self.token] if self.token else []), *self._claims]

    @property
    def ended(self) -> list[str]:
        """Those of `tokens` whose processes have ended, as this one has the lock of the folder. Where the folder is on
        a network file system, a machine may not see the lock of another one: what that one has written may be in use.
        """
        return self.tokens if self.boot in ('', locks.boot_id()) else []

    def continues(self, token: str | None) -> bool:
        """Whether the run in the folder is that of this lease, or newer: nobody else has had the store since."""
        return token is not None and token in [self.token, *(each for each, counts in self._claims.items() if counts)]

    def claim(self, token: str, before: str | None) -> None:
        """The lease is about to be written with this token, in place of the one `before`. Saved. Raises OSError."""
        self._claims[token] = self.continues(before)
        self.save()

    def hold(self, token: str | None) -> None:
        """The run in the folder is that of this lease, which is there, so that earlier ones cannot come any more.
        Saved. Raises OSError."""
        self.token, self._claims = token, {}
        self.save()

    def start_over(self) -> None:
        """The run in the folder counts no longer: it is fetched anew."""
        self._claims = dict.fromkeys(self.tokens, False)
        self.token = None

    def digests(self) -> dict[str, str | None]:
        return {name: entry['digest'] for name, entry in self._sent.items()}

    def version(self, name: str) -> Version | None:
        """Of the object; None: it is not there."""
        entry = self._sent.get(name)
        return Version(entry['e_tag'], entry['number']) if entry else None

    def put(self, name: str, digest: str | None, version: Version) -> None:
        self._sent[name] = {'digest': digest, 'e_tag': version.e_tag, 'number': version.number}

    def forget(self, name: str) -> None:
        self._sent.pop(name, None)

    def compare(self, objects: dict[str, Object], kept: Collection[str] = ()) -> None:
        """Drops what the store does not have any more, and what it says of objects that have changed, but for those
        in `kept`."""
        for name in list(self._sent):
            if name not in objects:
                del self._sent[name]
            elif name not in kept and self.has_changed(name, objects[name]):
                self.put(name, None, objects[name].version)

    def has_changed(self, name: str, found: Object) -> bool:
        """Whether the object is not of the version that is known."""
        return name in self._sent and self._sent[name]['e_tag'] != found.version.e_tag
