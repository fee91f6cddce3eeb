"""An object store in memory in the place of s3://bucket."""

import obstore

from estimator_trainer.data.remote import paths
from estimator_trainer.storage.store import Store, StoreUnavailable

BUCKET = 's3://bucket'


class Counting(Store):
    """Counts what is read, and may be away."""

    def __init__(self):
        super().__init__(obstore.store.MemoryStore(), BUCKET)
        self.reads, self.away = [], False

    def read_range(self, name, start, end, version):
        self.reads.append((name, start, end))
        if self.away:
            raise StoreUnavailable('no answer')
        return super().read_range(name, start, end, version)

    def put(self, name, content):
        obstore.put(self._objects, name, content)


def install(monkeypatch, contents) -> Counting:
    """The store, with these objects: name -> bytes."""
    found = Counting()
    for name, content in contents.items():
        found.put(name, content)
    monkeypatch.setitem(paths.open_stores, BUCKET, found)
    return found


def files_below(folder, prefix) -> dict:
    """The files of a folder as objects."""
    files = [path for path in folder.rglob('*') if path.is_file()]
    return {f'{prefix}/{path.relative_to(folder)}': path.read_bytes() for path in files}
