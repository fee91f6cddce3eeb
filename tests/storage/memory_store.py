"""The one object store in memory of all tests: `storage.store.Store`, which can be looked at and have faults."""

import obstore

from estimator_trainer.data.remote import paths
from estimator_trainer.storage.store import Store, StoreUnavailable

URL = 's3://bucket/run'
BUCKET = 's3://bucket'


class MemoryStore(Store):
    """A store in memory.

    Attributes:
        calls: (operation, name, further arguments) of all operations so far.
        fault: (operation, name, whether it is done) -> called before and after each operation; it may raise.
        away: nothing can be read in ranges.
    """

    def __init__(self, url=URL, contents=None):
        super().__init__(obstore.store.MemoryStore(), url)
        self.calls, self.away = [], False
        self.fault = lambda operation, name, is_done: None
        for name, content in (contents or {}).items():
            self.put(name, content)

    def put(self, name, content):
        """Another machine writes an object: bytes, or a text."""
        obstore.put(self._objects, name, content.encode() if isinstance(content, str) else content)

    def remove(self, *names):
        """Another machine deletes objects."""
        obstore.delete(self._objects, list(names))

    def called(self, operation):
        """The names that an operation has been asked for so far."""
        return [call[1] for call in self.calls if call[0] == operation]

    def list(self, folder=''):
        return self._do(super().list, 'list', folder)

    def read(self, name):
        return self._do(super().read, 'read', name)

    def read_range(self, name, start, end, version):
        return self._do(super().read_range, 'read_range', name, start, end, version)

    def open(self, name, part=None):
        return self._do(super().open, 'open', name, part)

    def write(self, name, content, replaces):
        return self._do(super().write, 'write', name, content, replaces)

    def put_file(self, name, path):
        return self._do(super().put_file, 'put_file', name, path)

    def _do(self, function, operation, name, *args):
        self.calls.append((operation, name, *args))
        if self.away and operation == 'read_range':
            raise StoreUnavailable('no answer')
        self.fault(operation, name, False)
        done = function(name, *args)
        self.fault(operation, name, True)
        return done


def install(monkeypatch, contents) -> MemoryStore:
    """Makes s3://bucket of data sets a store with these objects: name -> bytes."""
    found = MemoryStore(BUCKET, contents)
    monkeypatch.setitem(paths.open_stores, BUCKET, found)
    return found


def files_below(folder, prefix) -> dict:
    """The files of a folder as objects."""
    files = [path for path in folder.rglob('*') if path.is_file()]
    return {f'{prefix}/{path.relative_to(folder)}': path.read_bytes() for path in files}
