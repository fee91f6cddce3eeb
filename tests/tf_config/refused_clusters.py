"""Ways in which the cluster of a TF_CONFIG is refused, one row each."""

import json
from typing import NamedTuple

CHIEF = {'type': 'chief', 'index': 0}
WORKER = {'type': 'worker', 'index': 0}


def text(cluster=None, task=None, **others):
    given = {'cluster': cluster, 'task': task, **others}
    return json.dumps({key: value for key, value in given.items() if value is not None})


def workers(*addresses, task=WORKER):
    return text({'worker': list(addresses)}, task)


def with_task(**task):
    return workers('a:1', 'b:1', task=task)


def with_index(value):
    return with_task(type='worker', index=value)


class Row(NamedTuple):
    """A TF_CONFIG with one thing wrong, and what its one finding shows."""

    text: str
    key: str
    seen: str
    problem: str
    strategy: str = 'auto'
    corrected: dict | None = None  # cluster of the corrected form, where it matters
    task: str | None = None  # its task


ROWS = {
    'not JSON': Row("{'cluster': 1}", 'TF_CONFIG', "{'cluster': 1}", 'not JSON'),
    'cut off': Row('{"cluster":', 'TF_CONFIG', '{"cluster":', 'not JSON'),
    'not an object': Row('["a:1"]', 'TF_CONFIG', '["a:1"]', 'not a JSON object'),
    'null': Row('null', 'TF_CONFIG', 'null', 'not a JSON object'),
    'cluster not an object': Row(text(['a:1'], WORKER), 'cluster', '["a:1"]', 'not an object'),
    'worker_hosts': Row(
        text({'worker_hosts': ['a:1', 'b:1']}, WORKER),
        'cluster.worker_hosts',
        '["a:1", "b:1"]',
        'did you mean "worker"?',
        corrected={'worker': ['a:1', 'b:1']},
    ),
    'workers': Row(
        text({'workers': ['a:1']}, WORKER),
        'cluster.workers',
        '["a:1"]',
        'did you mean "worker"?',
        corrected={'worker': ['a:1']},
    ),
    'ps_hosts': Row(
        text({'chief': ['a:1'], 'ps_hosts': ['b:1']}, CHIEF),
        'cluster.ps_hosts',
        '["b:1"]',
        'did you mean "ps"?',
        corrected={'chief': ['a:1'], 'ps': ['b:1']},
    ),
    'workers besides worker': Row(
        text({'workers': ['a:1'], 'worker': ['b:1']}, WORKER),
        'cluster.workers',
        '["a:1"]',
        'did you mean "worker"?',
        corrected={'worker': ['b:1', 'a:1']},
    ),
    'workers that are those of worker': Row(
        text({'workers': ['a:1', 'b:1'], 'worker': ['a:1', 'b:1']}, WORKER),
        'cluster.workers',
        '["a:1", "b:1"]',
        'did you mean "worker"?',
        corrected={'worker': ['a:1', 'b:1']},
    ),
    'roles at the top level': Row(
        json.dumps({'worker': ['a:1', 'b:2'], 'task': {'type': 'worker', 'index': 1}}),
        'worker',
        '["a:1", "b:2"]',
        'belongs in "cluster"',
        corrected={'worker': ['a:1', 'b:2']},
        task='worker:1',
    ),
    'a role at the top level beside a cluster': Row(
        text({'worker': ['a:1', 'b:2']}, WORKER, evaluator=['c:3']),
        'evaluator',
        '["c:3"]',
        'belongs in "cluster"',
        corrected={'worker': ['a:1', 'b:2'], 'evaluator': ['c:3']},
    ),
    'a role at the top level that the cluster has too': Row(
        text({'worker': ['a:1', 'b:2']}, WORKER, worker=['b:2', 'c:3']),
        'worker',
        '["b:2", "c:3"]',
        'belongs in "cluster"',
        corrected={'worker': ['a:1', 'b:2', 'c:3']},
    ),
    'a role with an old name at the top level': Row(
        json.dumps({'master': ['a:1'], 'task': {'type': 'master', 'index': 0}}),
        'master',
        '["a:1"]',
        'belongs in "cluster"',
        corrected={'chief': ['a:1']},
    ),
    'Cluster': Row(
        text(None, WORKER, Cluster={'worker': ['a:1', 'b:1']}),
        'Cluster',
        '{"worker": ["a:1", "b:1"]}',
        'did you mean "cluster"?',
        corrected={'worker': ['a:1', 'b:1']},
    ),
    'cluster_spec': Row(
        text(None, WORKER, cluster_spec={'worker': ['a:1', 'b:1']}),
        'cluster_spec',
        '{"worker": ["a:1", "b:1"]}',
        'did you mean "cluster"?',
        corrected={'worker': ['a:1', 'b:1']},
    ),
    'Task': Row(
        text({'worker': ['a:1', 'b:1']}, None, Task={'type': 'worker', 'index': 1}),
        'Task',
        '{"type": "worker", "index": 1}',
        'did you mean "task"?',
        task='worker:1',
    ),
    'the index beside the task': Row(
        text({'worker': ['a:1', 'b:1']}, {'type': 'worker'}, index=1),
        'index',
        '1',
        'belongs in "task"',
        task='worker:1',
    ),
    'unlike any role': Row(text({'xyz': ['a:1']}, WORKER), 'cluster.xyz', '["a:1"]', 'not a role (chief, worker'),
    'role a string': Row(
        text({'worker': 'a:1'}, WORKER), 'cluster.worker', '"a:1"', 'not a list', corrected={'worker': ['a:1']}
    ),
    'role an object': Row(
        text({'worker': {'0': 'a:1', '1': 'b:1'}}, {'type': 'worker', 'index': 1}),
        'cluster.worker',
        '{"0": "a:1", "1": "b:1"}',
        'not a list',
        corrected={'worker': ['a:1', 'b:1']},
    ),
    'role an object in another order': Row(
        text({'worker': {'1': 'b:1', '0': 'a:1'}}, {'type': 'worker', 'index': 1}),
        'cluster.worker',
        '{"1": "b:1", "0": "a:1"}',
        'not a list',
        corrected={'worker': ['a:1', 'b:1']},
    ),
    'role a string of two': Row(
        text({'worker': 'a:1, b:2'}, {'type': 'worker', 'index': 1}),
        'cluster.worker',
        '"a:1, b:2"',
        'not a list',
        corrected={'worker': ['a:1', 'b:2']},
        task='worker:1',
    ),
    'a list of one string of two': Row(
        text({'worker': ['a:1,b:2']}, {'type': 'worker', 'index': 1}),
        'cluster.worker[0]',
        '"a:1,b:2"',
        'several addresses',
        corrected={'worker': ['a:1', 'b:2']},
        task='worker:1',
    ),
    'a list with a string of two': Row(
        text({'worker': ['a:1,b:2', 'c:3']}, {'type': 'worker', 'index': 1}),
        'cluster.worker[0]',
        '"a:1,b:2"',
        'several addresses',
        corrected={'worker': ['a:1', 'b:2', 'c:3']},
    ),
    'role a number': Row(text({'worker': 2}, WORKER), 'cluster.worker', '2', 'not a list'),
    'role null': Row(
        '{"cluster":{"worker":["a:1"],"ps":null},"task":{"type":"worker","index":0}}',
        'cluster.ps',
        'null',
        'not a list',
        'none',
        {'worker': ['a:1']},
    ),
    'address a number': Row(text({'worker': ['a:1', 5]}, WORKER), 'cluster.worker[1]', '5', 'not a "host:port"'),
    'no port': Row(workers('a:1', 'b'), 'cluster.worker[1]', '"b"', 'no port', corrected={'worker': ['a:1', 'b:2222']}),
    'empty port': Row(workers('a:'), 'cluster.worker[0]', '"a:"', 'no port'),
    'IPv6, no port': Row(
        workers('[::1]'), 'cluster.worker[0]', '"[::1]"', 'no port', corrected={'worker': ['[::1]:2222']}
    ),
    'IPv6, no brackets': Row(
        workers('fe80::1:2222'),
        'cluster.worker[0]',
        '"fe80::1:2222"',
        'brackets',
        corrected={'worker': ['[fe80::1]:2222']},
    ),
    'port not a number': Row(workers('a:http'), 'cluster.worker[0]', '"a:http"', 'bad port'),
    'port not ASCII': Row(workers('a:\u0663'), 'cluster.worker[0]', r'"a:\u0663"', 'bad port'),
    'port 0': Row(workers('a:0'), 'cluster.worker[0]', '"a:0"', 'bad port'),
    'port 65536': Row(workers('a:65536'), 'cluster.worker[0]', '"a:65536"', 'bad port'),
    'port negative': Row(workers('a:-1'), 'cluster.worker[0]', '"a:-1"', 'bad port'),
    'no host': Row(workers(':2222'), 'cluster.worker[0]', '":2222"', 'no valid host'),
    'blank in host': Row(workers('a b:2222'), 'cluster.worker[0]', '"a b:2222"', 'no valid host'),
    'scheme': Row(
        workers('grpc://a:1'), 'cluster.worker[0]', '"grpc://a:1"', 'scheme', corrected={'worker': ['a:2222']}
    ),
    'duplicate in a role': Row(
        workers('a:2222', 'a:2222'),
        'cluster.worker[1]',
        '"a:2222"',
        'cluster.worker[0] too',
        corrected={'worker': ['a:2222', 'a:2223']},
    ),
    'duplicate across roles': Row(
        text({'chief': ['a:1'], 'ps': ['b:1', 'a:1']}, CHIEF), 'cluster.ps[1]', '"a:1"', 'cluster.chief[0] too'
    ),
    'the master is a worker too': Row(
        text({'master': ['a:1'], 'worker': ['a:1', 'b:1']}, {'type': 'worker', 'index': 1}),
        'cluster.worker[0]',
        '"a:1"',
        'cluster.master[0] too: the chief is not one of the workers',
        corrected={'chief': ['a:1'], 'worker': ['b:1']},
        task='worker:0',
    ),
    'the chief is the last worker too': Row(
        text({'chief': ['localhost:1'], 'worker': ['b:1', '127.0.0.1:1']}, WORKER),
        'cluster.worker[1]',
        '"127.0.0.1:1"',
        'cluster.chief[0] too',
        corrected={'chief': ['localhost:1'], 'worker': ['b:1']},
        task='worker:0',
    ),
    'the chief is this worker': Row(
        text({'chief': ['a:1'], 'worker': ['a:1', 'b:1']}, WORKER),
        'cluster.worker[0]',
        '"a:1"',
        'cluster.chief[0] too',
        corrected={'chief': ['a:1'], 'worker': ['b:1']},
        task='chief:0',
    ),
    'duplicate in other letters': Row(
        workers('Host:1', 'host:1'), 'cluster.worker[1]', '"host:1"', 'cluster.worker[0] too'
    ),
    'duplicate loopback': Row(
        workers('localhost:1', '127.0.0.1:1'), 'cluster.worker[1]', '"127.0.0.1:1"', 'cluster.worker[0] too'
    ),
    'two chiefs': Row(
        text({'chief': ['a:1', 'b:1'], 'worker': ['c:1']}, {'type': 'chief', 'index': 1}),
        'cluster.chief',
        '["a:1", "b:1"]',
        'several chiefs',
        corrected={'chief': ['a:1'], 'worker': ['c:1', 'b:1']},
        task='worker:1',
    ),
    'chief and master': Row(
        text({'master': ['a:1'], 'chief': ['b:1']}, CHIEF),
        'cluster.master',
        '["a:1"]',
        'old name',
        corrected={'chief': ['b:1']},
    ),
    'unknown role without addresses': Row(
        text({'wroker': []}, WORKER), 'cluster.wroker', '[]', 'did you mean "worker"?'
    ),
    'unknown role without addresses beside another': Row(
        text({'chief': ['a:1'], 'wroker': []}, CHIEF),
        'cluster.wroker',
        '[]',
        'did you mean "worker"?',
        corrected={'chief': ['a:1']},
    ),
    'one key twice': Row(
        '{"cluster":{"chief":["a:1"],"chief":["b:1"]},"task":{"type":"chief","index":0}}',
        'chief',
        '[["a:1"], ["b:1"]]',
        'twice',
    ),
    'parameter_server, no chief, worker 0': Row(
        text({'worker': ['a:1', 'b:1'], 'ps': ['c:1']}, WORKER),
        'cluster.chief',
        'absent',
        'needs one chief',
        corrected={'chief': ['a:1'], 'worker': ['b:1'], 'ps': ['c:1']},
        task='chief:0',
    ),
}
