import pytest

from tf_config import Cluster
from tf_config.addresses import is_public, problem, public_addresses


@pytest.mark.parametrize(
    'address',
    [
        '8.8.8.8:2222',
        '100.63.255.255:1',
        '172.32.0.1:65535',
        '[2001:4860:4860::8888]:2222',
        '[2001:4860:4860::8888%eth0]:2222',
        '[::ffff:8.8.8.8]:2222',
    ],
)
def test_a_number_of_the_internet_is_public(address):
    assert problem(address) is None
    assert is_public(address)


@pytest.mark.parametrize(
    'address',
    [
        '127.0.0.1:2222',
        '0.0.0.0:2222',
        '10.0.0.1:2222',
        '172.16.0.1:2222',
        '172.31.255.255:2222',
        '192.168.1.1:2222',
        '169.254.169.254:80',
        '100.64.0.1:2222',  # shared by the customers of a provider; clouds use it inside
        '224.0.1.1:2222',
        '255.255.255.255:2222',
        '[::1]:2222',
        '[::]:2222',
        '[fe80::1%eth0]:2222',
        '[fd00::1]:2222',
        '[::ffff:10.0.0.1]:2222',
        '[::ffff:127.0.0.1]:2222',
        '[ff0e::1]:2222',
    ],
)
def test_other_numbers_are_not(address):
    assert problem(address) is None
    assert not is_public(address)


@pytest.mark.parametrize(
    'address',
    [
        'localhost:2222',
        'worker-0:2222',
        'dns.google:443',
        '8.8.8.8.example.com:2222',
        '8.8.8:2222',
        '999.8.8.8:2222',
        '134744072:2222',
    ],
)
def test_a_name_is_not_resolved(address):
    assert not is_public(address)


def test_public_addresses_come_in_task_order():
    cluster = Cluster(
        chief=('10.0.0.1:1',),
        worker=('8.8.8.8:2', 'w:2', '[2001:4860:4860::8888]:2'),
        ps=('1.1.1.1:3',),
        evaluator=('127.0.0.1:4',),
    )
    assert public_addresses(cluster) == ('8.8.8.8:2', '[2001:4860:4860::8888]:2', '1.1.1.1:3')


def test_a_cluster_without_public_addresses():
    assert public_addresses(Cluster()) == ()
    assert public_addresses(Cluster(worker=('10.0.0.1:1', 'w:1'))) == ()
