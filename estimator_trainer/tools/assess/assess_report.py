"""An assessment as text, as JSON and for its page."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from estimator_trainer.tools.assess.findings import OLD_IMPORT, POINTS, Assessment, CodeFinding
from estimator_trainer.tools.assess.knowledge import BLOCKS, NEEDS, RUNS
from estimator_trainer.tools.reporting import some, wrapped

TITLES = {BLOCKS: 'Blocks', NEEDS: 'Needs a change', RUNS: 'Runs as it is'}
OLD_TITLE = 'Needs `import tensorflow.compat.v1 as tf`'
WITHOUT_TF1 = 'Without `--tf1`: '
_RUN = 'python -m estimator_trainer.compat run'
EFFORT_NOTE = (
    'Points: each part counts once in a file: '
    + ', '.join(f'{effort} {points}' for effort, points in POINTS.items())
    + '. They compare programs with each other; they are no hours.'
)
_PLACES = 5  # that the text names of each part
_NAMES = 8


class Group(NamedTuple):
    """Findings with one answer: one section of the table, one thing to do."""

    names: tuple[str, ...]
    places: tuple[str, ...]
    here: str
    keras: str
    effort: str


def verdict(assessment: Assessment) -> str:
    """The first line: what blocks, or else how much there is to do. A program of TensorFlow 1 runs with --tf1."""
    blocking = assessment.left_with_tf1(BLOCKS)
    if blocking:
        first = blocking[0]
        more = f' ({len(blocking) - 1} more findings block)' if len(blocking) > 1 else ''
        return f'blocked: {first.place}: {first.name}: {first.here}{more}'
    if assessment.runs_with_tf1:
        return f'runs unchanged with `{_RUN} --tf1`; to run without it, change {lines(assessment.lines_to_change)}'
    if assessment.of_tf1:
        few, many = lines(assessment.lines_with_tf1), lines(assessment.lines_to_change)
        return f'needs changes: {few} with `{_RUN} --tf1`, {many} without it; nothing blocks'
    if assessment.having(NEEDS):
        return f'needs changes: {lines(assessment.lines_to_change)}; nothing blocks'
    if not assessment.findings:
        return 'has nothing that `assess` knows: no Estimator, no name of TensorFlow 1'
    notes = '; read what stands at "here:"' if any(finding.here for finding in assessment.findings) else ''
    return f'runs as it is under `{_RUN}`{notes}'


def lines(number: int) -> str:
    return f'{number} line{"" if number == 1 else "s"}'


def summary(assessment: Assessment) -> list[str]:
    counts = {state: len(assessment.having(state)) for state in TITLES}
    old = sum(finding.with_tf1 for finding in assessment.findings)
    spared = f' {old} of them {"runs" if old == 1 else "run"} unchanged with `--tf1`.' if old else ''
    change = f'{lines(assessment.lines_to_change)} to change'
    if old:
        few = lines(assessment.lines_with_tf1) if assessment.lines_with_tf1 else 'nothing'
        change = f'{few} to change with `--tf1`, {lines(assessment.lines_to_change)} without it'
    without = f' ({assessment.without_tensorflow} without TensorFlow)' if assessment.without_tensorflow else ''
    return [
        f'{assessment.files} file{"" if assessment.files == 1 else "s"}{without}. '
        f'Findings: {counts[BLOCKS]} that block, '
        f'{counts[NEEDS]} that need a change, {counts[RUNS]} that run as they are and change in Keras 3.{spared} '
        f'{assessment.other} other uses of TensorFlow stay.',
        f'To run here: {change}. To move to Keras 3: {assessment.points} points.',
        EFFORT_NOTE,
    ]


def sections(assessment: Assessment) -> Iterator[tuple[str, str, list[Group]]]:
    """(title, state, groups) of what was found, the worst first. What `--tf1` runs comes after what it does not."""
    for state, with_tf1 in ((BLOCKS, False), (NEEDS, False), (BLOCKS, True), (NEEDS, True), (RUNS, False)):
        having = [finding for finding in assessment.having(state) if finding.with_tf1 is with_tf1]
        for old_import in (False, True):
            groups = _groups([finding for finding in having if finding.old_import is old_import])
            title = OLD_TITLE if old_import else TITLES[state]
            if groups:
                yield (f'{WITHOUT_TF1}{title[0].lower()}{title[1:]}' if with_tf1 else title), state, groups


def _groups(findings: Sequence[CodeFinding]) -> list[Group]:
    together: dict[tuple, list[CodeFinding]] = {}
    for finding in findings:
        together.setdefault((finding.entry.title, finding.here), []).append(finding)
    return [
        Group(
            tuple(dict.fromkeys(each.name for each in members)),
            tuple(dict.fromkeys(each.place for each in members)),
            '' if members[0].here == OLD_IMPORT else members[0].here,
            members[0].entry.keras,
            members[0].entry.effort,
        )
        for members in together.values()
    ]


def text(assessment: Assessment) -> str:
    """The report for a terminal."""
    lines_of_text = [verdict(assessment), '', *wrapped(summary(assessment))]
    for title, _, groups in sections(assessment):
        lines_of_text += ['', f'{title}:']
        for group in groups:
            lines_of_text += wrapped([some(group.names, _NAMES)], '  ', '    ')
            lines_of_text += wrapped([f'at {places(group.places)}'], '    ', '      ')
            lines_of_text += wrapped([f'here: {group.here}'] if group.here else [], '    ', '      ')
            lines_of_text += wrapped([f'Keras 3 ({group.effort}): {group.keras}'], '    ', '      ')
    return '\n'.join(lines_of_text)


def places(each: Sequence[str], most: int = _PLACES) -> str:
    """'a.py:1, 7, b.py:3 and 9 more': the name of a file stands before its first line."""
    texts, last = [], ''
    for place in each[:most]:
        path, _, line = place.rpartition(':')
        texts.append(line if path == last else place)
        last = path
    return some([*texts, *each[most:]], most)


def to_json(assessment: Assessment) -> dict[str, Any]:
    return {
        'verdict': verdict(assessment),
        'files': assessment.files,
        'files_without_tensorflow': assessment.without_tensorflow,
        'other_uses': assessment.other,
        'lines_to_change': assessment.lines_to_change,
        'lines_with_tf1': assessment.lines_with_tf1,
        'runs_with_tf1': assessment.runs_with_tf1,
        'keras_points': assessment.points,
        'findings': [
            {
                'file': finding.path,
                **{name: value for name, value in finding._asdict().items() if name not in ('path', 'entry')},
                'keras': finding.entry.keras,
                'effort': finding.entry.effort,
            }
            for finding in assessment.findings
        ],
    }


def for_page(assessment: Assessment) -> dict[str, Any]:
    """What the template of the page shows, beside the title."""
    return {
        'width': '80rem',
        'verdict': verdict(assessment),
        'state': assessment.state,
        'summary': summary(assessment),
        'places': places,
        'sections': list(sections(assessment)),
    }
