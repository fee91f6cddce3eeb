"""The snippets of docs/recipes.md, and a program that runs some of them.

    python tests/end_to_end/recipes.py 3 4    # the fourth and the fifth section, in the current folder

Each section runs in a process of its own, and so does each call of `train` or `evaluate`, as a user has it. But these
processes are forked from one that has imported TensorFlow, which would take longer than all the rest.
"""

import dataclasses
import os
import pathlib
import re
import shlex
import sys
import tempfile
import traceback

PAGE = pathlib.Path(__file__).parents[2] / 'docs' / 'recipes.md'
_OLD = 'old/model.ckpt-1000'


@dataclasses.dataclass(frozen=True)
class Section:
    """heading: of the page. blocks: (language, text) of its code. lines: which its output has."""

    heading: str
    blocks: tuple
    lines: tuple

    def missing(self, output: str) -> list[str]:
        return [line for line in self.lines if not re.search(re.escape(line).replace('…', '.*'), output)]


def read() -> tuple[str, list[Section]]:
    """What all snippets begin with, and the sections."""
    first, *rest = re.split(r'^## ', PAGE.read_text(encoding='utf-8'), flags=re.MULTILINE)[1:]
    sections = []
    for text in rest:
        blocks = re.findall(r'^```(\w+)\n(.*?)^```', text, re.MULTILINE | re.DOTALL)
        lines = [line for language, block in blocks if language == 'text' for line in block.splitlines()]
        code = tuple(block for block in blocks if block[0] in ('python', 'bash'))
        sections.append(Section(text.partition('\n')[0], code, tuple(lines)))
    found = re.search(r'^```python\n(.*?)^```', first, re.MULTILINE | re.DOTALL)
    assert found
    return found[1], sections


def outputs(printed: str) -> dict[str, str]:
    """heading -> output, of what this program has printed."""
    return dict(part.split('\n', 1) for part in re.split(r'^== ', printed, flags=re.MULTILINE)[1:])


def _in_child(work) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run_command(words, grace_secs, environ, shows_stdout=True):
    """`child_command.run`, in a process that is forked and not started."""
    from estimator_trainer import __main__
    from estimator_trainer.api import child_command

    with tempfile.TemporaryFile('w+') as out:

        def work():
            given = dict(environ)
            os.environ.clear()
            os.environ.update(given)
            sys.argv = ['estimator_trainer', *words]
            if not shows_stdout:
                os.dup2(out.fileno(), 1)
            __main__.main()

        code = _in_child(work)
        out.seek(0)
        return child_command.Ended(code, (), out.read())


def _run(before: str, section: Section) -> None:
    from estimator_trainer.api import child_command

    child_command.run = _run_command
    if any(_OLD in text for _, text in section.blocks):
        assert _in_child(make_old_checkpoint) == 0  # no process is forked from one that has run a session
    for language, text in section.blocks:
        if language == 'bash':
            words = shlex.split(text)
            assert words[:3] == ['python', '-m', 'estimator_trainer']
            assert _run_command(words[3:], 0, os.environ).code == 0
        else:
            exec(compile(f'{before}\n{text}', section.heading, 'exec'), {'__name__': '__main__'})


def make_old_checkpoint() -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    os.makedirs('old')
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable('hidden/kernel', [2, 16])
        v1.get_variable('hidden/bias', [16])
        v1.get_variable('logits/kernel', [16, 3])  # of another shape than the new one
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, 'old/model.ckpt', 1000)


if __name__ == '__main__':
    import tensorflow  # noqa: F401

    begins, found = read()
    codes = []
    for number in map(int, sys.argv[1:]):
        print(f'== {found[number].heading}')
        codes.append(_in_child(lambda number=number: _run(begins, found[number])))
    sys.exit(max(codes))
