"""tools.pages: plots whose words are those of others."""

import numpy as np
import pytest

pytest.importorskip('matplotlib')

from estimator_trainer.tools import pages  # noqa: E402


@pytest.mark.parametrize('name', ['saved_$_per_$', r'x$\foo$', 'lr $0.1$', 'a_b^c'])
def test_names_with_dollars_are_no_mathematics(name):
    steps = np.arange(3.0)
    points = pages.Points(steps, steps + 1, steps + 1, steps + 1)
    svg = str(pages.curves('plot', f'mae {name}', [pages.Curve(name, points, 0), pages.Curve('b', points, 1)], (), 3))
    assert f'>{name}</text>' in svg and f'>mae {name}</text>' in svg
    assert name in str(pages.lines({name: {1: 0.5, 2: 0.4}}, name, 'lines', 'a plot'))
