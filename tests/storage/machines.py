"""A machine that trains into a store in memory, and the store, which fails, loses answers and is looked at."""

import itertools
import os
from unittest import mock

from estimator_trainer.storage import after_boot, fetch, lease, mirror, names, scratch_state, share, snapshot
from tests.storage.memory_store import URL, MemoryStore
from tests.storage.whole import problem


class Killed(BaseException):
    """The sender's process is gone."""


class Watched(MemoryStore):
    """After each change somebody reads all of it. At the change number `at`, `error` comes: before the change, or after
    it where `answer_is_lost`."""

    def __init__(self):
        super().__init__()
        self.wrong, self.named, self.count = [], set(), itertools.count()
        self.at, self.error, self.answer_is_lost = None, None, False
        self.visible = {}

    def write(self, name, content, replaces):
        return self._change(lambda: super(Watched, self).write(name, content, replaces), name, content)

    def delete(self, name):
        self._change(lambda: super(Watched, self).delete(name), name, None)

    def _change(self, operation, name, content):
        due = next(self.count) == self.at
        if due and not self.answer_is_lost:
            raise self.error
        done = operation()
        self.visible[name] = content
        found = self.contents()
        self.named.add(found.get(names.POINTER, ''))
        self.wrong.append(problem(found, self.named))
        if due:
            raise self.error
        return done

    def contents(self):
        """name -> text; of `checkpoint`, the checkpoint that it names."""
        found = {name: content for name, content in self.visible.items() if content is not None and name != names.LEASE}
        pointer = found.pop(names.POINTER, None)
        texts = {name: content.decode() for name, content in found.items()}
        return texts | ({names.POINTER: names.named_by(pointer)} if pointer else {})


class Machine:
    """A trainer's machine with a scratch folder. `start` is what a start of the trainer does."""

    def __init__(self, folder, remote, mine=share.Share()):
        self.scratch, self.remote, self.share = str(folder), remote, mine
        self.now = 0
        self.run = folder / 'run'
        self.run.mkdir(parents=True, exist_ok=True)

    def start(self):
        self.state = scratch_state.ScratchState(self.scratch, URL)
        self.lease = lease.Lease(self.remote, 30, self.share, clock=lambda: self.now)
        before = self.lease.acquire(self.state.token)
        with mock.patch.object(after_boot, 'is_of_one_save', is_of_one_save):
            newest, _ = fetch.fetch(
                self.remote, str(self.run), self.state, self.share, before and before == self.state.token
            )
        self.state.token = self.lease.token
        self.state.save()
        self.mirror = mirror.Mirror(self.remote, self.lease, self.scratch, self.state, newest, 3, self.share)
        self.mirror._reader._verify = lambda prefix: True
        self.mirror.look()
        return self

    def save(self, step, content):
        for part in ('data-00000-of-00001', 'meta', 'index'):
            self.write(f'model.ckpt-{step}.{part}', content)
        self.write('config.json', 'config')
        self.write('metrics.jsonl', content)
        self.write('checkpoint', f'model_checkpoint_path: "{self.run}/model.ckpt-{step}"\n')

    def export(self, number):
        for old in self.run.glob('export/best/[0-9]*/*'):
            old.unlink()
        for part in ('variables', 'saved_model.pb'):
            self.write(f'export/best/{number}/{part}', f'export {number}')
        self.write('export/best/best.json', f'export/best/{number}')
        self.write('eval/last.json', names.named_by((self.run / 'checkpoint').read_bytes()))

    def write(self, name, text):
        path = self.run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name('writing.tmp')
        temporary.write_text(text)
        os.replace(temporary, path)

    def push(self):
        for _ in range(5):
            try:
                return self.mirror.push()
            except snapshot.FileChanged:
                pass
        raise AssertionError('it has not come to an end')

    def files(self):
        found = {}
        for path in self.run.rglob('*'):
            if path.is_file():
                found[str(path.relative_to(self.run))] = path.read_text()
        found[names.POINTER] = names.named_by(found[names.POINTER].encode())
        return found


def is_of_one_save(prefix):
    """Of checkpoints that `Machine.save` has written: all files of one have the same content."""
    with open(f'{prefix}.data-00000-of-00001') as data, open(f'{prefix}.index') as index:
        return data.read() == index.read()


def train(machine, start=0):
    """Everything that is hard: a checkpoint saved again under its name, a better export, checkpoints thinned out."""
    machine.save(start + 10, 'first')
    machine.push()
    machine.export(start + 1)
    machine.save(start + 10, 'again')
    machine.push()
    machine.save(start + 20, 'second')
    machine.export(start + 2)
    for path in machine.run.glob(f'model.ckpt-{start + 10}.*'):
        path.unlink()
    machine.push()
