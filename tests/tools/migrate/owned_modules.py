"""The modules of `owned`, imported as their owner does: from a folder in sys.path, next to Keras 3."""

import sys

import pytest

from estimator_trainer.compat import owned

keras = pytest.importorskip('keras', '3.5', reason='the modules that a migrated model takes along are for Keras 3')
sys.path.append(owned.FOLDER)
