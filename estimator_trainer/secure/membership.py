"""Who a task is for the companions of the others: its name, and the attempt of which it is."""

import dataclasses
import secrets
import threading
from collections.abc import Mapping

from estimator_trainer.secure import channel, run_key
from estimator_trainer.secure.channel import Identity, Refused
from estimator_trainer.secure.refusals import Refusal


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a task tells its companion. Nothing of it is secret.

    Attributes:
        task: its name.
        chief: the name of the chief, whose attempt counts.
        attempt: what the engine calls it; '': it calls it nothing.
        key_file: of the run.
        ports: name of a task -> its port inside every network. One of them is this task's if it has a server.
        addresses: name of a task -> its address 'host:port' on the machines' network.
    """

    task: str
    chief: str
    attempt: str
    key_file: str
    ports: Mapping[str, int]
    addresses: Mapping[str, str]


class Membership:
    """Who this task is for the others. It may have to ask the chief for the attempt first.

    The chief chooses a name for each of its attempts, unless the engine has one. The other tasks read it in the chief's
    certificate. Until a task has been connected with another one, the chief may turn out to be of a newer attempt: the
    one before had not ended yet. From then on the attempt stays, and tasks of other attempts are refused. An evaluator,
    to which nobody connects, follows the chief from one attempt to the next.

    Args:
        key: of the run.

    Attributes:
        attempt: by `run_key.name_of_attempt`; '': not known yet.
        server, client: the contexts of both sides of TLS.
        is_settled: the attempt stays.
    """

    def __init__(self, key: run_key.RunKey, settings: Settings):
        self._key, self._task, self._chief = key, settings.task, settings.chief
        self._lock = threading.Lock()
        self.is_settled = bool(settings.attempt) or settings.task == settings.chief
        attempt = settings.attempt or (secrets.token_hex(16) if settings.task == settings.chief else '')
        self._take(run_key.name_of_attempt(attempt) if attempt else '')

    def _take(self, attempt: str) -> None:
        credentials = self._key.certify(self._task, attempt)
        self.server, self.client = channel.server_context(credentials), channel.client_context(credentials)
        self.attempt = attempt

    def settle(self) -> None:
        self.is_settled = self.is_settled or not self._task.startswith('evaluator:')

    def check(self, identity: Identity) -> None:
        """Raises Refused if the other side is not of this attempt. Learns the attempt from the chief."""
        if identity.attempt == self.attempt:
            return
        with self._lock:
            if identity.task == self._chief and not self.is_settled:
                self._take(identity.attempt)
                raise Refused(Refusal.NOBODY_LISTENS)  # the next call shows the new certificate
        raise Refused(Refusal.OTHER_ATTEMPT, identity.task)
