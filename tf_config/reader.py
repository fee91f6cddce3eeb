"""TF_CONFIG text -> cluster and task, with what is wrong in the text itself.

What is wrong is mended on the way, so that reading goes on and all problems are told at once.
"""

import difflib
import functools
import json
import re
from typing import NamedTuple

from tf_config import addresses, misplaced
from tf_config.cluster import ROLES, Cluster, Task

ABSENT = object()
NEAR = 'did you mean'  # in a problem: what was meant is probably known
# Names that no spelling check would bring to their role.
_OTHER_NAMES = {'master': 'chief', 'parameter': 'ps', 'server': 'ps', 'trainer': 'worker'}
_POOLS = ('chief', 'worker', 'ps', 'evaluator')  # of CLUSTER_SPEC of Vertex AI, by the number of their workerpool


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
    pool = re.fullmatch(r'workerpool[_-]?([0-3])', name.lower())
    if pool:
        return _POOLS[int(pool[1])]
    known = (*ROLES, *_OTHER_NAMES)
    stem = name.lower().partition('_')[0]
    near = difflib.get_close_matches(stem, known, n=1)
    return _OTHER_NAMES.get(near[0], near[0]) if near else None


class TfConfigReader:
    """Reads one TF_CONFIG; `problems` and `notes` grow as it goes.

    `is_guess`: the cluster or the task is one of several that the text may mean.
    """

    def __init__(self):
        self.problems = []
        self.notes = []
        self.is_guess = False
        self._again = []  # the indices at which the chief is listed among the workers again
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
        return misplaced.put_in_place(document, nearest_role, self._blame)

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
        self._drop_chief_among_workers(roles)
        first_at: dict[str, object] = {}
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
        if role == 'worker' and self._again:
            self.is_guess |= index in self._again  # another process may be this chief
            left = index - sum(again < index for again in self._again)
            return Task('chief', 0) if index in self._again else Task('worker', left)
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
        """role -> [(key in the text, unchecked address), ...], empty roles left out."""
        # An unknown name is a mistake with an empty list as well: some role is missing then.
        given = {name: value for name, value in raw.items() if value != [] or name not in (*ROLES, 'master')}
        roles: dict[str, list] = {}
        others = []
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
            listed = self._addresses(role, key, value, blame=role == name or name == 'master')
            if role in roles or role != name and role in given:
                others.append((role, listed))
            elif role:
                roles[role] = listed
        for role, listed in others:  # no task is lost, and each index may be another one's
            known = [value for _, value in roles.setdefault(role, [])]
            more = [(key, value) for key, value in listed if value not in known]
            self.is_guess |= bool(more)
            roles[role] += more
        return roles

    def _addresses(self, role, key, value, blame):
        """[(key, address), ...] of what stands for the tasks of a role."""
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
        listed = []
        for index, each in enumerate(value):
            parts = re.split(r' *[,;] *', each) if isinstance(each, str) else [each]
            if len(parts) > 1:
                self._blame(f'{key}[{index}]', each, 'holds several addresses: each one is a string of its own')
                self.is_guess |= len(value) > 1
            listed += [(f'{key}[{index}]', part) for part in parts if part or len(parts) == 1]
        return listed

    def _drop_chief_among_workers(self, roles):
        chiefs = {addresses.place(value): key for key, value in roles.get('chief', ()) if _is_address(value)}
        workers = []
        for index, (key, value) in enumerate(roles.get('worker', ())):
            chief = chiefs.get(addresses.place(value)) if _is_address(value) else None
            if chief:
                self._blame(key, value, f'is the address of {chief} too: the chief is not one of the workers')
                self._again.append(index)
            else:
                workers.append((key, value))
        if self._again:
            roles['worker'] = workers

    def _unused(self, host, roles):
        """An address of `host` whose place no valid address has, nor another that was mended."""
        if self._places is None:
            self._places = addresses.TakenPlaces(
                value for listed in roles.values() for _, value in listed if _is_address(value)
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


def _is_address(value):
    return isinstance(value, str) and not addresses.problem(value)
