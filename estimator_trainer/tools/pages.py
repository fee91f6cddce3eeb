"""The pages that tools write: one HTML file each, which needs nothing from elsewhere.

A template of a tool extends `base.html.jinja`, which has the head, the colours and the style of all pages.
"""

import pathlib
from typing import Any

import jinja2
import markupsafe

_FOLDER = pathlib.Path(__file__).parent
_LIGHT = (
    '--ink: #1d2329; --paper: #fff; --rule: #d5dadf; --pale: #b9c4cf; '
    '--good: #176639; --bad: #b3151f; --warn: #8a5a00; '
    '--c0: #0b62c4; --c1: #c2570c; --c2: #1a7f4b; --c3: #7c3fb5; '
    '--c4: #c2255c; --c5: #0f7c8a; --c6: #8a5a2b; --c7: #5b6470'
)
_DARK = (
    '--ink: #e4e8ec; --paper: #14181d; --rule: #363e47; --pale: #55616d; '
    '--good: #6fd39a; --bad: #ff8f8a; --warn: #f0c15c; '
    '--c0: #6cb6ff; --c1: #ffa657; --c2: #6fd39a; --c3: #c8a2ff; '
    '--c4: #ff8fb1; --c5: #56d4dd; --c6: #d9b38c; --c7: #a9b4c0'
)
CSS = f"""\
:root {{ color-scheme: light dark; {_LIGHT} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
body {{ color: var(--ink); background: var(--paper) }}
"""


def render(template: pathlib.Path, **values: Any) -> str:
    """The page of a template, in which these values have their names."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, _FOLDER]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(template.name).render(css=markupsafe.Markup(CSS), **values)
