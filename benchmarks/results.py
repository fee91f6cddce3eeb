"""results.json holds the newest measurements of each case; results.md and results.svg are made from it."""

import dataclasses
import json
import pathlib
import sys

from benchmarks import measure
from benchmarks.cases import CASES

FOLDER = pathlib.Path(__file__).parent
_DATA, _PAGE, _PLOT = 'results.json', 'results.md', 'results.svg'
MEASURES = {
    'mib_peak': 'most resident memory',
    'mib_after_5': 'resident memory after 5 evaluations',
    'mib_at_end': 'resident memory after the last evaluation',
    'evaluation_secs': 'from one evaluation to the next one: a step, a checkpoint, an evaluation',
}


def keep(name: str, facts: dict, tables: dict, folder: pathlib.Path = FOLDER) -> None:
    """Puts a case in the place of what was there, and makes the page and the plot anew.

    Args:
        name: of the case.
        facts: about the machine, {name: text}.
        tables: {measurement: rows}.
        folder: of the three files.
    """
    data, written = folder / _DATA, folder / _PAGE
    cases = json.loads(data.read_text(encoding='utf-8')) if data.exists() else {}
    rows = {measurement: [dataclasses.asdict(row) for row in made] for measurement, made in tables.items()}
    cases[name] = {'facts': facts, 'tables': rows}
    data.write_text(json.dumps(cases, indent=1) + '\n', encoding='utf-8')
    text, plots = page(cases)
    try:
        from benchmarks import plot
    except ImportError as error:
        print(f'no plot: {error}; pip install matplotlib', file=sys.stderr)
        text = text.replace(f'![Ratios]({_PLOT})\n', '')
    else:
        plot.write(plots, folder / _PLOT)
    written.write_text(text, encoding='utf-8')
    print(f'wrote {written}', flush=True)


def page(cases: dict) -> tuple[str, list]:
    """The page, and (title, rows) of its tables. `cases` is what results.json holds."""
    names = [name for name in CASES if name in cases]
    common = dict.items(cases[names[-1]]['facts']) if names else ()
    common = {fact: text for fact, text in common if all(cases[name]['facts'].get(fact) == text for name in names)}
    parts, plots = [_heading(common)], []
    for name in names:
        own = [f'{fact}: {text}' for fact, text in cases[name]['facts'].items() if fact not in common]
        for measurement, rows in cases[name]['tables'].items():
            made, unit = [measure.Row(**row) for row in rows], CASES[name].measures[measurement]
            title = title_of(name, measurement)
            parts.append(f'## {title}\n\n{measure.table(made, unit)}\n')
            plots.append((f'{title} ({unit})', made))
        if own:
            parts.append(f'{"; ".join(own)}\n')
    return '\n'.join(parts), plots


def title_of(name: str, measurement: str) -> str:
    return ': '.join(filter(None, [CASES[name].title, MEASURES.get(measurement)]))


def _heading(facts) -> str:
    lines = [
        '# Results',
        '',
        '`python -m benchmarks --write` made this page. [docs/benchmarks.md](../docs/benchmarks.md) says how to read',
        'it. Other programs on the machine make the spread wide.',
        '',
        *(f'- {name}: {text}' for name, text in facts.items()),
        '',
        f'![Ratios]({_PLOT})',
        '',
    ]
    return '\n'.join(lines)
