"""The commands of the tasks of a job description."""

from estimator_trainer.submit import description as descriptions
from estimator_trainer.submit import remote_supervisor


def test_the_chief_comes_first_whatever_the_order_of_the_roles():
    description = descriptions.parse(
        {
            'name': 'test',
            'flagfile': 'f',
            'model_dir': '/m',
            'roles': {'ps': {}, 'worker': {'count': 2, 'cores': 3}, 'chief': {}, 'evaluator': {}},
        }
    )
    names = description.tasks()
    assert names == ['ps:0', 'worker:0', 'worker:1', 'chief:0', 'evaluator:0']
    made = remote_supervisor.commands(description, {name: f'h{n}:1' for n, name in enumerate(names)}, {})
    assert [command.name for command in made] == ['chief:0', 'worker:0', 'worker:1', 'ps:0', 'evaluator:0']
    assert [command.trains for command in made] == [True, True, True, False, False]
    assert [command.alone for command in made] == [False, True, True, False, True]
    assert made[1].address == 'h1:1' and '--intra_op_threads=3' in made[1].argv
