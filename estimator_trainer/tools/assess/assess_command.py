"""`python -m estimator_trainer assess`: programs -> a report and an exit code."""

import dataclasses
import json
import pathlib
from collections.abc import Callable

from estimator_trainer import exit_codes
from estimator_trainer.config import flags
from estimator_trainer.config.declaration import flag
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import files_of_others
from estimator_trainer.tools import command_line, local_copies
from estimator_trainer.tools.assess import assess_report, findings, source_files
from estimator_trainer.tools.assess.knowledge import BLOCKS, NEEDS

USAGE = """\
usage: python -m estimator_trainer assess PROGRAM_OR_FOLDER... [--html=FILE] [--json=FILE] [--fail_on=blocked]

Reads Estimator programs (.py) and notebooks (.ipynb) without running them, and says for each line
what runs here as it is, what needs a change and what blocks, and what it becomes in Keras 3. Of a
program of TensorFlow 1 it says whether `compat run --tf1` runs it unchanged. All files that are
named together count as one program. Ends with 1 if --fail_on says so.
"""
_TEMPLATE = pathlib.Path(__file__).with_name('page.html.jinja')
_FAIL_ON = ('blocked', 'needs', 'none')


@dataclasses.dataclass(frozen=True)
class AssessFlags:
    html: str = flag('', 'File for the report as an HTML page. Needs Jinja.', group='The report', unset='none')
    json: str = flag('', 'File for the report as JSON, with every finding.', group='The report', unset='none')
    fail_on: str = flag(
        'blocked',
        'What ends the command with 1. blocked: a line that blocks, under `compat run --tf1` as well; needs: also a '
        'line that needs a change, or that blocks without --tf1.',
        group='The report',
        choices=_FAIL_ON,
        why='what needs a change can wait for a person; what blocks cannot be run',
    )


def main(argv) -> int:
    """Runs the command line `argv`, without program name. The exit code: 0, FAILED as --fail_on says, USAGE, or that of
    a file that cannot be read or written."""
    return command_line.run(
        argv, USAGE, AssessFlags, lambda: _assess(*flags.parse_with_words(AssessFlags, ['assess', *argv]))
    )


def _assess(values, paths) -> int:
    if not paths:
        raise UsageError('name the programs or folders that are assessed.')
    render = _renderer() if values.html else None
    with local_copies.LocalCopies() as here:
        html, json_file = here.file(values.html, '--html'), here.file(values.json, '--json')
        files_of_others.refuse_reports(html, json_file, 'keras_points')
        found = findings.assess([source_files.read(path) for path in source_files.find(paths)])
        print(assess_report.text(found))
        if render:
            _write(html, render(_TEMPLATE, title=f'Assessment of {", ".join(paths)}', **assess_report.for_page(found)))
        if json_file:
            _write(json_file, json.dumps(assess_report.to_json(found), indent=1) + '\n')
        here.send()
    failing = {'blocked': found.left_with_tf1(BLOCKS), 'needs': found.having(BLOCKS) + found.having(NEEDS)}
    return exit_codes.FAILED if failing.get(values.fail_on) else exit_codes.OK


def _renderer() -> Callable[..., str]:
    try:
        from estimator_trainer.tools import pages
    except ImportError as error:
        raise UsageError(f'--html needs Jinja ({error}): pip install jinja2') from error
    return pages.render


def _write(path, content) -> None:
    with open(path, 'w', encoding='utf-8') as file:
        file.write(content)
