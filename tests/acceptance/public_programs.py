"""Public programs that use tf.estimator, unmodified: their final loss on TensorFlow 2.15 and on a newer one.

    python tests/acceptance/public_programs.py --from=PYTHON_OF_2.15.1 --to=PYTHON_OF_2.21 --sources=FOLDER

Each module of `public/` says which program of which repository it is, at which commit, and writes a little data for it.
The program runs through `compat run --stable-seeds` in the same mode on both, and makes one row of a Markdown table.
FOLDER holds git repositories named owner+name; one that is not there is cloned from GitHub. It is not part of CI, and
needs TensorFlow to write data.

A module has:
    REPOSITORY, REF, MODE: 'owner/name', a commit, and the switches of `compat run`, such as '--tf1'.
    command(source, folder): writes the data to the empty `folder`, which is the program's home; returns the program,
        relative to the checkout `source`, and its arguments.
and may have:
    LOSS: what finds the final loss in the output; the last match counts.
    STOPS: for a program that cannot run, a part of the last line of its output.
    TOLERANCE: the relative difference between the two losses that is still the same.
    PACKAGES: what is installed for it from the index, without dependencies.
    ALSO: {repository: commit} of sources that the program imports.
    SUBTREE, CWD, PYTHONPATH: the folders that are checked out, where the program starts, and where it imports from.
"""

import argparse
import importlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
DEFAULTS = {
    **{'LOSS': r'Loss for final step: ([\d.e+-]+\d)', 'STOPS': '', 'TOLERANCE': 1e-4},
    **{'PACKAGES': (), 'ALSO': {}, 'SUBTREE': (), 'CWD': '.', 'PYTHONPATH': ()},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--from', dest='old', required=True, help='a Python with TensorFlow 2.15.1')
    parser.add_argument('--to', dest='new', required=True, help='a Python with a newer TensorFlow')
    parser.add_argument('--sources', type=pathlib.Path, required=True)
    parser.add_argument('--only', help='names of modules, with commas; all of them otherwise')
    parser.add_argument('--timeout_secs', type=float, default=300, help='for each run of a program')
    parser.add_argument('--keep', type=pathlib.Path, help='a folder for the output of the programs')
    options = parser.parse_args()
    names = sorted(path.stem for path in (HERE / 'public').glob('*.py') if path.stem not in ('common', '__init__'))
    print('| program | commit | mode | 2.15.1 | 2.21 | difference |\n|---|---|---|---|---|---|', flush=True)
    well = True
    for name in options.only.split(',') if options.only else names:
        row, does_as_it_should = _row(name, options)
        print(row, flush=True)
        well = well and does_as_it_should
    return 0 if well else 1


def _row(name, options):
    module = _module(name)
    repository = _repository(module.REPOSITORY, options.sources)
    year = _output(['git', '-C', repository, 'log', '-1', '--format=%cs', module.REF])[:4]
    ends = []
    for version, python in (('from', options.old), ('to', options.new)):
        with tempfile.TemporaryDirectory(prefix=f'{name}-') as folder:
            program, code, text = _run(module, python, pathlib.Path(folder), options)
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / f'{name}.{version}.log').write_text(text)
        losses = re.findall(module.LOSS, text)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        ends.append((float(losses[-1]), '') if code == 0 and losses else (None, lines[-1] if lines else f'exit {code}'))
    (before, _), (after, why_after) = ends
    start = f'| {module.REPOSITORY} {program} | {module.REF[:7]}, {year} | {module.MODE or "as it is"} |'
    cells = [why if loss is None else f'{loss:.8g}' for loss, why in ends]
    if None in (before, after):
        well = bool(module.STOPS) and after is None and module.STOPS in why_after
        return f'{start} {" | ".join(cells)} | {"stops, as it must" if well else "FAILED"} |', well
    difference = abs(after - before) / max(abs(before), 1e-12)
    well = not module.STOPS and difference <= module.TOLERANCE
    return f'{start} {" | ".join(cells)} | {difference:.0e}{"" if well else " FAILED"} |', well


def _module(name):
    sys.path.insert(0, str(HERE / 'public'))
    return types.SimpleNamespace(**{**DEFAULTS, **vars(importlib.import_module(name))})


def _repository(name, sources):
    folder = sources / name.replace('/', '+')
    if not folder.exists():
        partial = sources / f'{folder.name}.partial'
        shutil.rmtree(partial, ignore_errors=True)
        _output(['git', 'clone', '-q', '--bare', f'https://github.com/{name}', partial], 1800)
        partial.rename(folder)
    return folder


def _run(module, python, folder, options):
    """The program's name, exit code and output."""
    source, data, packages = folder / 'source', folder / 'data', folder / 'site-packages'
    data.mkdir()
    _check_out(_repository(module.REPOSITORY, options.sources), module.REF, source, module.SUBTREE)
    path = [source / each for each in module.PYTHONPATH]
    for name, ref in module.ALSO.items():
        _check_out(_repository(name, options.sources), ref, folder / name, ())
        path.append(folder / name)
    if module.PACKAGES:
        _output([python, '-m', 'pip', 'install', '-q', '--no-deps', '--target', packages, *module.PACKAGES], 600)
        path.append(packages)
    (folder / 'tmp').mkdir()
    arguments = module.command(source, data)
    run = ['-m', 'estimator_trainer.compat', 'run', '--stable-seeds', *shlex.split(module.MODE)]
    homes = {'HOME': str(data), 'TMPDIR': str(folder / 'tmp')}
    environment = {**os.environ, **homes, 'TF_CPP_MIN_LOG_LEVEL': '2', 'CUDA_VISIBLE_DEVICES': ''}
    environment['PYTHONPATH'] = os.pathsep.join(map(str, [*path, HERE.parents[1]]))
    code, text = _bounded([python, *run, *arguments], options.timeout_secs, cwd=source / module.CWD, env=environment)
    program = arguments[1] if arguments[0] == '-m' else arguments[0]
    return os.path.normpath(f'{module.CWD}/{program}'), code, text


def _check_out(repository, ref, folder, paths):
    folder.mkdir(parents=True)
    archive = folder.parent / f'{folder.name}.tar'
    _output(['git', '-C', repository, 'archive', '-o', archive, ref, *paths])
    _output(['tar', '-xf', archive, '-C', folder])


def _output(command, timeout=120):
    code, text = _bounded(command, timeout)
    if code:
        raise RuntimeError(f'{command}: {text[-2000:]}')
    return text


def _bounded(command, timeout, **where):
    """The exit code and the output of a command. After `timeout` seconds it and all that it started are killed."""
    pipe = {'stdout': subprocess.PIPE, 'stderr': subprocess.STDOUT, 'text': True, 'errors': 'replace'}
    process = subprocess.Popen(list(map(str, command)), start_new_session=True, **pipe, **where)
    try:
        text, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text = f'{process.communicate()[0]}\nnot done after {timeout:.0f} s'
    return process.returncode, text


if __name__ == '__main__':
    sys.exit(main())
