"""`python -m estimator_trainer inspect`: folders -> a report and an exit code."""

import dataclasses
import functools
import os
from collections.abc import Sequence

from estimator_trainer import exit_codes
from estimator_trainer.config import flags, urls
from estimator_trainer.config.declaration import flag
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import files_of_others, protocol
from estimator_trainer.storage import needs
from estimator_trainer.tools import command_line, local_copies
from estimator_trainer.tools.inspection import folder

USAGE = """\
usage: python -m estimator_trainer inspect MODEL_DIR|CHECKPOINT|SAVEDMODEL... [--json=FILE] [--variables]

Says what a folder of TensorFlow's is, without its program: the kind of Estimator, columns, layers,
optimizer, step, checkpoints and their damage, exports and their signatures, evaluations, and what
can be done with it copies. Reads what TensorFlow 1.4 to 2.21 has written, also in a store (s3://, gs://,
az://), and changes nothing.
"""
VERIFY = ('all', 'newest', 'sizes')
_of_report = functools.partial(flag, group='The report')


@dataclasses.dataclass(frozen=True)
class InspectFlags:
    model_dir: tuple = command_line.model_dirs(several=True)
    json: str = _of_report('', 'File for the report as JSON, with everything that was found.', unset='none')
    variables: bool = _of_report(False, 'List every variable, with the slots of the optimizers.')
    verify: str = _of_report(
        'all',
        'How damage is looked for. all: the checksums of every checkpoint and export; newest: those of the newest '
        'checkpoint, and the sizes of the others; sizes: sizes only.',
        choices=VERIFY,
        why='nothing else finds a changed byte; it reads all files once',
    )


def main(argv: Sequence[str]) -> int:
    """Runs the command line `argv`, without program name. The exit code: 0, DAMAGED if a file is damaged, USAGE, or
    that of a file that cannot be read or written."""
    return command_line.run(
        argv, USAGE, InspectFlags, lambda: _inspect(*flags.parse_with_words(InspectFlags, ['inspect', *argv]))
    )


def _inspect(values: InspectFlags, words: Sequence[str]) -> int:
    paths = [*words, *values.model_dir]
    if not paths:
        raise UsageError('name the folders that are inspected.')
    with local_copies.LocalCopies() as copies:
        out = copies.file(values.json, '--json')
        files_of_others.refuse_reports('', out, 'newest_whole_checkpoint')
        places = [folder.find(_local_path(path, copies, values.verify)) for path in paths]
        code = _report([place._replace(path=copies.shown(place.path)) for place in places], values, out, copies)
        copies.send()
    return code


def _local_path(path: str, copies: local_copies.LocalCopies, verify: str) -> str:
    """A folder, or the prefix or a file of a checkpoint; of a copy, if it is in a store."""
    if not urls.is_url(path):
        return path
    path = urls.normal(path)
    copy = copies.copy(path, 'MODEL_DIR', needs.of_inspection(verify))
    parent, _, name = path.rpartition('/')
    if copy.found or parent == urls.bucket(path):
        return copy.folder
    above = copies.copy(parent, 'MODEL_DIR', needs.of_inspection(verify, name))
    return os.path.join(above.folder, name) if above.found else copy.folder


def _report(places: list[folder.Place], values, out: str, copies: local_copies.LocalCopies) -> int:
    from estimator_trainer import compat

    compat.bring_up()
    from estimator_trainer.tools.inspection import folder_findings, inspect_report

    documents = []
    for place in places:
        findings = folder_findings.inspect(place, values.verify)
        print(('\n' if documents else '') + copies.shown(inspect_report.text(findings, values.variables)))
        documents.append(copies.shown(inspect_report.document(findings)))
    if out:
        protocol.write_json(out, documents if len(documents) > 1 else documents[0])
    return exit_codes.DAMAGED if any(each['damage'] for each in documents) else exit_codes.OK
