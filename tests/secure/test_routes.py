"""secure.channel.Routes: what a connection to another companion needs of a name server."""

import socket

import pytest

from estimator_trainer.secure import channel
from estimator_trainer.secure.channel import Refused, Routes
from estimator_trainer.secure.refusals import Refusal


@pytest.fixture
def peer():
    with socket.create_server(('127.0.0.1', 0)) as server:
        yield f'localhost:{server.getsockname()[1]}'


@pytest.fixture
def away(monkeypatch):
    """Takes the name server away, and says how often it was asked since."""
    asked = []

    def take_away():
        def getaddrinfo(*args, **kwargs):
            asked.append(args)
            raise socket.gaierror(socket.EAI_AGAIN, 'Temporary failure in name resolution')

        monkeypatch.setattr(socket, 'getaddrinfo', getaddrinfo)

    take_away.asked = asked
    return take_away


def test_a_peer_that_was_reached_is_reached_without_a_name_server(peer, away):
    routes = Routes()
    with routes.to(peer, 5) as connection:
        connection.close()
    away()
    for _ in range(3):
        with routes.to(peer, 5) as connection:
            assert connection.getpeername()[1] == int(peer.rpartition(':')[2])
            connection.close()
    assert away.asked == []
    with pytest.raises(Refused):
        with Routes().to(peer, 5):
            pass
    assert len(away.asked) == 1


def test_who_is_refused_there_is_asked_for_by_name_again(peer, away):
    routes = Routes()
    with routes.to(peer, 5) as connection:
        connection.close()
    with pytest.raises(Refused):
        with routes.to(peer, 5) as connection:
            connection.close()
            raise Refused(Refusal.OTHER_TASK)
    away()
    with pytest.raises(Refused):
        with routes.to(peer, 5):
            pass
    assert len(away.asked) == 1


def test_a_peer_that_has_left_its_address_is_asked_for_by_name(away):
    routes = Routes()
    with socket.create_server(('127.0.0.1', 0)) as server:
        peer = f'localhost:{server.getsockname()[1]}'
        with routes.to(peer, 5) as connection:
            connection.close()
    with pytest.raises(Refused) as caught:
        with routes.to(peer, 5):
            pass
    assert caught.value.refusal == channel.Refusal.NOBODY_LISTENS
    assert away.asked == []
