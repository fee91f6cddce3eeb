"""compat.horovod.ranks: which rank a process has. Pure."""

import json

import pytest

import tf_config
from estimator_trainer.compat.horovod import ranks


def environment(role='worker', index=0, **cluster):
    return {'TF_CONFIG': json.dumps({'cluster': cluster, 'task': {'type': role, 'index': index}})}


def test_a_process_that_nothing_names_is_alone():
    place = ranks.place_of({})
    assert (place.rank, place.size, place.local_rank, place.local_size) == (0, 1, 0, 1)
    assert (place.cross_rank, place.cross_size) == (0, 1)


def test_the_chief_comes_before_the_workers():
    cluster = dict(chief=['a:1'], worker=['a:2', 'b:1', 'b:2'])
    assert ranks.place_of(environment('chief', 0, **cluster)).rank == 0
    place = ranks.place_of(environment('worker', 2, **cluster))
    assert (place.rank, place.size, place.local_rank, place.local_size) == (3, 4, 1, 2)
    assert (place.cross_rank, place.cross_size) == (1, 2) and ranks.place_of(
        environment('worker', 0, **cluster)
    ).rank == 1


def test_ranks_of_mpirun():
    environ = {
        'OMPI_COMM_WORLD_RANK': '1',
        'OMPI_COMM_WORLD_SIZE': '2',
        'OMPI_COMM_WORLD_LOCAL_RANK': '1',
        'OMPI_COMM_WORLD_LOCAL_SIZE': '2',
    }
    place = ranks.place_of(environ)
    assert (place.rank, place.size, place.local_rank, place.local_size) == (1, 2, 1, 2)
    environ |= {'OMPI_COMM_WORLD_LOCAL_SIZE': '1', 'OMPI_COMM_WORLD_LOCAL_RANK': '0'}
    with pytest.raises(tf_config.TfConfigError, match='--hosts'):
        ranks.place_of(environ)
    place = ranks.place_of(environ | {'ESTIMATOR_TRAINER_HOSTS': 'a,b'})
    assert (place.rank, place.size, place.hosts, place.local_rank) == (1, 2, ('a', 'b'), 0)


def test_estimators_see_no_cluster_and_processes_that_are_started_know_their_place():
    environ = environment('worker', 1, worker=['a:1', 'b:1'])
    first = ranks.take(environ)
    assert first.rank == 1 and 'TF_CONFIG' not in environ
    assert ranks.take(environ) == ranks.take(dict(environ)) == first


def test_an_evaluator_has_no_rank():
    with pytest.raises(ValueError, match='evaluator:0 has no rank'):
        ranks.place_of(environment('evaluator', 0, worker=['a:1', 'b:1'], evaluator=['b:2']))
