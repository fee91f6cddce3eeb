"""Modules with a state of their own."""

import importlib.util


def copy_of(module):
    """The module, executed once more. Its variables do not hold what those of the original hold.

    It is in the same package, and not in sys.modules.
    """
    package = module.__name__.rpartition('.')[0]
    spec = importlib.util.spec_from_file_location(f'{package}.copy' if package else 'copy', module.__file__)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
