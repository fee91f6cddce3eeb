"""tools.pages: what stands in a plot is what it was given."""

import xml.dom.minidom

import numpy as np
import pytest

pytest.importorskip('matplotlib')
pages = pytest.importorskip('estimator_trainer.tools.pages', exc_type=ImportError)
NAMES = ['saved_$_per_$', 'lr $0.1$', r'x$\foo$', '$', '$$', r'a\$b$', '_hidden', 'a & <b>']


def texts(svg):
    """All texts of the drawings."""
    found = xml.dom.minidom.parseString(f'<x>{svg}</x>').getElementsByTagName('text')
    return {''.join(node.data for node in text.childNodes if node.nodeType == node.TEXT_NODE) for text in found}


def curve(label, number=0):
    steps = np.arange(3.0)
    return pages.Curve(label, pages.Points(steps, steps + 1, steps + 1, steps + 1), number)


@pytest.mark.parametrize('name', NAMES)
def test_a_name_means_itself(name):
    signs = [pages.StepMarks(f'sign {name}', (1,), pages.GOOD)]
    said = {text.strip() for text in texts(pages.curves('n', f'metric {name}', [curve(name), curve('b', 1)], signs, 3))}
    assert {name, 'b', f'metric {name}', f'sign {name}'} <= said
    said = {
        text.strip() for text in texts(pages.lines({name: {1: 0.5}, 'b': {1: 0.5}}, f'metric {name}', 'n', 'label'))
    }
    assert {name, 'b', f'metric {name}'} <= said


def test_what_no_page_may_hold_is_shown_as_a_box():
    svg = pages.curves('n', 'loss', [curve('a\x1bb'), curve('c\udcff', 1)], (), 3)
    assert {'a\ufffdb', 'c\ufffd'} <= texts(svg)
