"""TF_CONFIG text -> cluster and task, with what is wrong in the text itself.

What is wrong is mended on the way, so that reading goes on and all problems are told at once.
"""

import difflib
import functools
import json
import re
from typing import NamedTuple

from tf_config import addresses
from tf_config.cluster import ROLES, Cluster, Task

ABSENT = object()
NEAR = 'did you mean'  # in a problem: what was meant is probably known
# Names that no spelling check would bring to their role.
_OTHER_NAMES = {'master': 'chief', 'parameter': 'ps', 'server': 'ps', 'trainer': 'worker'}


class Problem(NamedTuple):
    """One thing that is wrong: where, the value seen (as text), and why."""

    key: str
    seen: str
    problem: str


def shown(value):
    """A value of TF_CONFIG as one short line."""
    try:
        text = 'absent' if value is ABSENT else json.dumps(value)
    except RecursionError:
        text = '(nested too deeply to show)'
    return text if len(text) <= 200 else text[:197] + '...'


def example_host(role, index):
    return f'{role}-{index}.example'


def nearest_role(name):
    """The known role that an unknown name seems to mean ('worker_hosts' -> 'worker'), or None."""
    known = (*ROLES, *_OTHER_NAMES)
    stem = name.lower().partition('_')[0]
    near = difflib.get_close_matches(stem, known, n=1)
    return _OTHER_NAMES.get(near[0], near[0]) if near else None


class TfConfigReader:
    """Reads one TF_CONFIG; `problems` and `notes` grow as it goes."""

    def __init__(self):
        self.problems = []
        self.notes = []
        self.no_task_in = ABSENT  # the "cluster" of the text, where it lists no task
        self._places = None  # of the addresses, once one has to be mended

    def document(self, text):
        """The JSON object, {} for blank text; None where there is none."""
        if not text.strip():
            return {}
        try:
            document = json.loads(text, object_pairs_hook=self._object)
        except (ValueError, RecursionError) as error:
            seen = text if text.isprintable() and len(text) <= 200 else shown(text)
            self.problems.append(Problem('TF_CONFIG', seen, f'is not JSON: {error}'))
            return None
        if not isinstance(document, dict):
            self._blame('TF_CONFIG', document, 'is not a JSON object')
            return None
        return document

    def cluster(self, document):
        """The cluster; None where it cannot be made out from what is given."""
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
        first_at: dict[str, object] = {}
        cluster = Cluster(
            **{
                role: tuple(
                    self._address(role, index, f'{key}[{index}]', value, first_at, roles)
                    for index, value in enumerate(values)
                )
                for role, (key, values) in roles.items()
            }
        )
        if not cluster and 'cluster' in document:
            self.no_task_in = raw
        return cluster if cluster or not self.problems else None

    def task(self, document, cluster):
        """The task, None where none is given. It need not be in the cluster."""
        raw = document.get('task', ABSENT)
        if raw is ABSENT:
            return None
        somebody = cluster and cluster.chief_task or Task('chief', 0)
        if not isinstance(raw, dict):
            self._blame('task', raw, 'is not an object {"type": ..., "index": ...}')
            return somebody
        role = self._task_role(raw.get('type', ABSENT))
        index = self._task_index(raw.get('index', ABSENT))
        return Task(role, index) if role else somebody

    def _blame(self, key, seen, problem):
        key = key if key.isprintable() else shown(key)
        self.problems.append(Problem(key, shown(seen), problem))

    def _note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def _object(self, pairs):
        result: dict[str, object] = {}
        for key, value in pairs:
            if key in result:
                self._blame(key, [result[key], value], 'is given twice in one object')
            result[key] = value
        return result

    def _roles(self, raw):
        """role -> (key in the text, list of unchecked addresses), empty roles left out."""
        # An unknown name is a mistake with an empty list as well: some role is missing then.
        given = {name: value for name, value in raw.items() if value != [] or name not in (*ROLES, 'master')}
        roles = {}
        for name, value in given.items():
            key, role = f'cluster.{name}', name
            if name == 'master':
                role = 'chief'
                if role in given:
                    self._blame(key, value, 'is the old name of "chief", which is given too')
                    continue
                self._note('"master" is read as "chief", its new name')
            elif name not in ROLES:
                role = nearest_role(name)
                self._blame(key, value, f'is not a role {_did_you_mean(role)}')
            values = self._addresses(role, key, value, blame=role == name or name == 'master')
            if role and role not in roles and (role == name or role not in given):
                roles[role] = key, values
        return roles

    def _addresses(self, role, key, value, blame):
        if isinstance(value, list):
            return value
        if blame:
            self._blame(key, value, 'is not a list of "host:port" strings')
        if isinstance(value, dict):
            return list(value.values())
        if value is None:
            return []
        return [value if isinstance(value, str) else f'{example_host(role, 0)}:2222']

    def _unused(self, host, roles):
        """An address of `host` whose place no valid address has, nor another that was mended."""
        if self._places is None:
            self._places = addresses.TakenPlaces(
                value
                for _, values in roles.values()
                for value in values
                if isinstance(value, str) and not addresses.problem(value)
            )
        return self._places.unused(host)

    def _address(self, role, index, key, value, first_at, roles):
        if not isinstance(value, str):
            self._blame(key, value, 'is not a "host:port" string')
            return self._unused(example_host(role, index), roles)
        problem = addresses.problem(value)
        if not problem:
            host = value.rpartition(':')[0]
            self._doubt(host)
            first = first_at.setdefault(addresses.place(value), key)
            if first == key:
                return value
            problem = f'is the address of {first} too: each task needs its own'
        self._blame(key, value, problem)
        host = addresses.host_in(value) or example_host(role, index)
        return self._unused(host, roles)

    def _doubt(self, host):
        if _looks_like_localhost(host.lower()):
            self._note(f'host "{host}" looks like a misspelled "localhost"')

    def _task_role(self, value):
        if value == 'master':
            self._note('"master" is read as "chief", its new name')
            return 'chief'
        if value in ROLES:
            return value
        if isinstance(value, str):
            role = nearest_role(value)
            self._blame('task.type', value, f'is not a role {_did_you_mean(role)}')
            return role
        self._blame('task.type', value, f'is not one of the roles {", ".join(ROLES)}')
        return None

    def _task_index(self, value):
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
def _looks_like_localhost(host):
    return host != 'localhost' and host.isalpha() and bool(difflib.get_close_matches(host, ['localhost'], cutoff=0.8))


def _did_you_mean(role):
    return f'({", ".join(ROLES)})' + (f': {NEAR} "{role}"?' if role else '')
