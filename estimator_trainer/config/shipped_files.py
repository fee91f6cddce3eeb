"""The flag files and job descriptions that come with the package, so that the README's commands need no checkout.

A checkout has them at the same paths: configs/ and deploy/mnist_two_workers.yaml are links into the package.
"""

import os

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'shipped')
_FLAG_FILES = 'configs'


def path_of(name: str) -> str:
    """The path of a file that a user names: his own if there is one, else the one of this name in the package.

    'configs/mnist_5k.flags', 'mnist_5k.flags' and 'mnist_5k' name the same flag file of the package. A name that
    neither has comes back as it is.
    """
    path = os.path.expanduser(name)
    if os.path.lexists(path) or os.path.isabs(path):
        return path
    within = os.path.normpath(path)
    candidates = [within, os.path.join(_FLAG_FILES, within), os.path.join(_FLAG_FILES, f'{within}.flags')]
    shipped = (os.path.join(_FOLDER, candidate) for candidate in candidates if not within.startswith(os.pardir))
    return next((file for file in shipped if os.path.isfile(file)), path)


def flag_files() -> list[str]:
    """The names of the flag files of the package, sorted: 'flights', 'mnist_5k', …"""
    return sorted(os.path.splitext(name)[0] for name in os.listdir(os.path.join(_FOLDER, _FLAG_FILES)))
