"""The addresses inside, which are the same in the network of each task."""

import tf_config
from estimator_trainer.config import trainer_config
from estimator_trainer.secure import entering
from estimator_trainer.training import plan as planning
from tf_config import Task

CLUSTER = tf_config.Cluster(chief=('a:1',), worker=('b:1', 'c:1'), ps=('a:2',), evaluator=('b:2',))


def test_every_task_has_a_port_of_its_own_and_it_is_the_same_everywhere():
    inside = entering.inside(CLUSTER)
    assert inside.tasks == CLUSTER.tasks
    for own in CLUSTER.tasks:
        ports = entering.ports(CLUSTER, own)
        assert {str(task): f'127.0.0.1:{ports[str(task)]}' for task in CLUSTER.tasks} == {
            str(task): inside.address(task) for task in CLUSTER.tasks
        }
    assert len(set(ports.values())) == 5


def test_an_evaluator_that_the_cluster_does_not_list_takes_nobodys_port():
    cluster = tf_config.Cluster(worker=('a:1', 'b:1'))
    ports = entering.ports(cluster, Task('evaluator', 0))
    assert {name: ports[name] for name in ('worker:0', 'worker:1')} == entering.ports(cluster, Task('worker', 0))
    assert len(set(ports.values())) == 3


def test_the_cluster_is_found_once(monkeypatch):
    """In the network of its own a task could ask neither a name server nor the engine."""
    given = {'cluster': {'chief': ['a:1'], 'worker': ['b:1']}, 'task': 'worker:0', 'notes': ['from Slurm']}
    parsed = entering.parsed(given)
    monkeypatch.setattr(entering, 'state', entering.Secured(None, parsed=parsed))
    config = trainer_config.parse(['trainer', '--model_dir=/nowhere', '--max_steps=5', '--cluster_from=slurm'])
    plan = planning.make(config, {})
    assert plan.cluster == tf_config.Cluster(chief=('a:1',), worker=('b:1',))
    assert (str(plan.task), plan.notes) == ('worker:0', ('from Slurm',))


def test_a_process_that_nobody_has_executed_again_is_not_secured(monkeypatch):
    monkeypatch.setattr(entering, 'is_command', False)
    environ = {'PATH': '/bin'}
    entering.begin(environ)
    assert entering.state is None
    assert entering.is_command
    assert environ == {'PATH': '/bin'}
