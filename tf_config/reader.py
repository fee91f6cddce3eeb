"""Reads a cluster and a task from the text of a TF_CONFIG, and finds the mistakes of the text.

A mistake is corrected at once, so that reading goes on and one message can name all mistakes.
"""

import difflib
import functools
import json
import re
from collections.abc import Mapping
from typing import TypeGuard

from tf_config import addresses, misplaced
from tf_config.cluster import ROLES, Cluster, Task
from tf_config.problems import ABSENT, NEAR, Problem, as_line, example_host

# Names that no spelling check would bring to their role.
_OTHER_NAMES = {'master': 'chief', 'parameter': 'ps', 'server': 'ps', 'trainer': 'worker'}
_POOLS = ('chief', 'worker', 'ps', 'evaluator')  # of CLUSTER_SPEC of Vertex AI, by the number of their workerpool


# The tasks of each role: (key in the text, such as 'cluster.worker[0]'; unchecked address).
_Listed = list[tuple[str, object]]


def nearest_role(name: str) -> str | None:
    """The role that an unknown name seems to mean ('worker_hosts' -> 'worker'), or None."""
    pool = re.fullmatch(r'workerpool[_-]?([0-3])', name.lower())
    if pool:
        return _POOLS[int(pool[1])]
    known = (*ROLES, *_OTHER_NAMES)
    stem = name.lower().partition('_')[0]
    near = difflib.get_close_matches(stem, known, n=1)
    return _OTHER_NAMES.get(near[0], near[0]) if near else None


class TfConfigReader:
    """Reads one TF_CONFIG. The methods `document`, `cluster` and `task` are called in this order, each once.

    Attributes:
        problems: the mistakes found so far.
        notes: what else the user should know, one sentence each.
        is_guess: the text may mean several clusters or tasks, and one of them was chosen.
        no_task_in: the value of "cluster" in the text, if it lists no task; else ABSENT.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.is_guess = False
        self.no_task_in: object = ABSENT
        self._chief_again: list[int] = []  # the indices at which the workers list the chief a second time
        self._places: addresses.TakenPlaces | None = None  # made when the first address has to be replaced

    def document(self, text: str) -> dict[str, object] | None:
        """The JSON object of the text: {} for blank text, None if the text is no JSON object."""
        if not text.strip():
            return {}
        try:
            document = json.loads(text, object_pairs_hook=self._object)
        except (ValueError, RecursionError) as error:
            seen = text if text.isprintable() and len(text) <= 200 else as_line(text)
            self.problems.append(Problem('TF_CONFIG', seen, f'is not JSON: {error}'))
            return None
        if not isinstance(document, dict):
            self._blame('TF_CONFIG', document, 'is not a JSON object')
            return None
        return misplaced.put_in_place(document, nearest_role, self._blame)

    def cluster(self, document: Mapping[str, object]) -> Cluster | None:
        """The cluster of the document, corrected; None if the text does not say what it is."""
        if 'sparseCluster' in document:
            self._blame(
                'sparseCluster',
                document['sparseCluster'],
                'is a cluster of dynamic workers: Estimator does not read it, and every worker '
                'would train alone into the same model_dir. Give the full "cluster" '
                '(Kubeflow TFJob: enableDynamicWorker: false)',
            )
            return None
        raw = document.get('cluster', {})
        if not isinstance(raw, dict):
            self._blame('cluster', raw, 'is not an object of role: ["host:port", ...]')
            return None
        roles = self._roles(raw)
        self._drop_chief_among_workers(roles)
        first_at: dict[tuple[str, int], str] = {}
        cluster = Cluster(
            **{
                role: tuple(
                    self._address(role, index, key, value, first_at, roles) for index, (key, value) in enumerate(listed)
                )
                for role, listed in roles.items()
            }
        )
        if not cluster and 'cluster' in document:
            self.no_task_in = raw
        return cluster if cluster or not self.problems else None

    def task(self, document: Mapping[str, object], cluster: Cluster | None) -> Task | None:
        """The task of the document; None if it names none. The cluster may have no such task."""
        raw = document.get('task', ABSENT)
        if raw is ABSENT:
            return None
        chief = cluster and cluster.chief_task or Task('chief', 0)
        if not isinstance(raw, dict):
            self._blame('task', raw, 'is not an object {"type": ..., "index": ...}')
            return chief
        role = self._task_role(raw.get('type', ABSENT))
        index = self._task_index(raw.get('index', ABSENT))
        if role == 'worker' and self._chief_again:
            self.is_guess |= index in self._chief_again  # another process may be this chief
            new_index = index - sum(again < index for again in self._chief_again)
            return Task('chief', 0) if index in self._chief_again else Task('worker', new_index)
        return Task(role, index) if role else chief

    def _blame(self, key: str, seen: object, problem: str) -> None:
        key = key if key.isprintable() else as_line(key)
        self.problems.append(Problem(key, as_line(seen), problem))

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        result: dict[str, object] = {}
        for key, value in pairs:
            if key in result:
                self._blame(key, [result[key], value], 'is given twice in one object')
            result[key] = value
        return result

    def _roles(self, raw: Mapping[str, object]) -> dict[str, _Listed]:
        """The tasks of each role. Roles with an empty list are left out."""
        # An unknown name is a mistake even with an empty list, because it may stand for a role that is missing.
        given = {name: value for name, value in raw.items() if value != [] or name not in (*ROLES, 'master')}
        roles: dict[str, _Listed] = {}
        others: list[tuple[str, _Listed]] = []
        role: str | None
        for name, value in given.items():
            key, role = f'cluster.{name}', name
            if name == 'master':
                role = 'chief'
                if role in given:
                    self._blame(key, value, 'is the old name of "chief", which is given too')
                    self.is_guess |= value != given[role]
                    continue
                self._note('"master" is read as "chief", its new name')
            elif name not in ROLES:
                role = nearest_role(name)
                self._blame(key, value, f'is not a role {_did_you_mean(role)}')
            listed = self._addresses(role or name, key, value, blame=role == name or name == 'master')
            if role is None:
                continue
            if role in roles or role != name and role in given:
                others.append((role, listed))
            else:
                roles[role] = listed
        for role, listed in others:  # all tasks are kept, but an index may now belong to another task
            known = [value for _, value in roles.setdefault(role, [])]
            more = [(key, value) for key, value in listed if value not in known]
            self.is_guess |= bool(more)
            roles[role] += more
        return roles

    def _addresses(self, role: str, key: str, value: object, blame: bool) -> _Listed:
        """The tasks in a value that should be a list of addresses. With `blame`, another type is a mistake."""
        if blame and not isinstance(value, list):
            self._blame(key, value, 'is not a list of "host:port" strings')
        if isinstance(value, dict):
            numbered = all(name.isdecimal() for name in value)
            value = [value[name] for name in (sorted(value, key=int) if numbered else value)]
        elif isinstance(value, str):
            value = re.split(r'[\s,;]+', value.strip(' ,;')) or [value]
        elif value is None:
            value = []
        elif not isinstance(value, list):
            value = [f'{example_host(role, 0)}:2222']
        listed: _Listed = []
        for index, each in enumerate(value):
            parts: list[object] = [*re.split(r' *[,;] *', each)] if isinstance(each, str) else [each]
            if len(parts) > 1:
                self._blame(f'{key}[{index}]', each, 'holds several addresses: each one is a string of its own')
                self.is_guess |= len(value) > 1
            listed += [(f'{key}[{index}]', part) for part in parts if part or len(parts) == 1]
        return listed

    def _drop_chief_among_workers(self, roles: dict[str, _Listed]) -> None:
        chiefs = {addresses.place(value): key for key, value in roles.get('chief', ()) if _is_address(value)}
        workers: _Listed = []
        for index, (key, value) in enumerate(roles.get('worker', ())):
            chief = chiefs.get(addresses.place(value)) if _is_address(value) else None
            if chief:
                self._blame(key, value, f'is the address of {chief} too: the chief is not one of the workers')
                self._chief_again.append(index)
            else:
                workers.append((key, value))
        if self._chief_again:
            roles['worker'] = workers

    def _unused(self, host: str, roles: Mapping[str, _Listed]) -> str:
        """An address of `host` whose place no valid address of the text has, and no other address made here."""
        if self._places is None:
            self._places = addresses.TakenPlaces(
                value for listed in roles.values() for _, value in listed if _is_address(value)
            )
        return self._places.unused(host)

    def _address(
        self,
        role: str,
        index: int,
        key: str,
        value: object,
        first_at: dict[tuple[str, int], str],
        roles: Mapping[str, _Listed],
    ) -> str:
        """The address of one task: `value` if it is valid, else a corrected one.

        `first_at` is filled with the key of the first address at each place.
        """
        if not isinstance(value, str):
            self._blame(key, value, 'is not a "host:port" string')
            return self._unused(example_host(role, index), roles)
        problem = addresses.problem(value)
        if not problem:
            host = value.rpartition(':')[0]
            self._note_misspelled_localhost(host)
            first = first_at.setdefault(addresses.place(value), key)
            if first == key:
                return value
            problem = f'is the address of {first} too: each task needs its own'
        self._blame(key, value, problem)
        host = addresses.host_in(value) or example_host(role, index)
        return self._unused(host, roles)

    def _note_misspelled_localhost(self, host: str) -> None:
        if _looks_like_localhost(host.lower()):
            self._note(f'host "{host}" looks like a misspelled "localhost"')

    def _task_role(self, value: object) -> str | None:
        if value == 'master':
            self._note('"master" is read as "chief", its new name')
            return 'chief'
        if isinstance(value, str):
            if value in ROLES:
                return value
            role = nearest_role(value)
            self._blame('task.type', value, f'is not a role {_did_you_mean(role)}')
            return role
        self._blame('task.type', value, f'is not one of the roles {", ".join(ROLES)}')
        return None

    def _task_index(self, value: object) -> int:
        text = str(value) if type(value) is int else value
        if value is ABSENT:
            problem = 'is missing: which of the tasks of its type is this?'
        elif not isinstance(text, str) or not re.fullmatch('-?[0-9]{1,9}', text):
            problem = 'is not a whole number'
        elif int(text) < 0:
            problem = 'is negative: indices count from 0'
        else:
            return int(text)
        self._blame('task.index', value, problem)
        return 0


@functools.lru_cache  # many tasks may be on one host
def _looks_like_localhost(host: str) -> bool:
    return host != 'localhost' and host.isalpha() and bool(difflib.get_close_matches(host, ['localhost'], cutoff=0.8))


def _did_you_mean(role: str | None) -> str:
    return f'({", ".join(ROLES)})' + (f': {NEAR} "{role}"?' if role else '')


def _is_address(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and not addresses.problem(value)
