"""An object store as the mirror needs it: few operations, three kinds of errors. obstore does the work.

A *version* is what the store calls one content of an object: its ETag and, at Google, its generation. A write can be
conditional on the version that it replaces.
"""

import contextlib
import math
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from estimator_trainer.storage import names, store_errors
from estimator_trainer.storage.store_errors import Conflict, ObjectChanged, StoreUnavailable
from estimator_trainer.storage.store_errors import StoreError as StoreError
from estimator_trainer.storage.store_errors import StoreRefused as StoreRefused

# Parts that are sent at once share the line, and each of them must be through before its request is given up.
_PART_BYTES, _AT_ONCE = 8 << 20, 2
_MOST_PARTS = 10_000  # of an object, at Amazon and Google
_CHUNK_BYTES = 1 << 20  # of what is fetched; a request that has brought one is followed by another if it breaks off
ONE_REQUEST_BYTES = 16 << 20  # what is larger goes in parts


class Version(NamedTuple):
    e_tag: str | None
    number: str | None = None


class Object(NamedTuple):
    size: int
    version: Version
    modified: float = 0.0  # seconds since the epoch, by the store's clock


class Store:
    """The objects of one model_dir.

    Args:
        objects: of obstore; its prefix is the model_dir.
        url: for messages.
        conditional: the store keeps to conditions; see `connection.connect`.
    """

    def __init__(self, objects: Any, url: str, conditional: bool = True):
        self._objects, self.url, self.conditional = objects, url, conditional

    def list(self, folder: str = '') -> dict[str, Object]:
        """name -> size and version of all objects, or of those in one folder, that can be files."""
        import obstore

        with self._errors('be listed'):
            found = [item for batch in obstore.list(self._objects, folder or None) for item in batch]
        objects = names.of_files({item['path']: _object(item) for item in found})
        # The marker of an empty folder, such as `notes/`, is listed without its slash, and is no object of that name.
        return {name: each for name, each in objects.items() if each.size or self.head(name)}

    def head(self, name: str) -> Object | None:
        """Size and version of an object; None: it is not there."""
        import obstore

        try:
            with self._errors(f'be read ({name})'):
                return _object(obstore.head(self._objects, name))
        except FileNotFoundError:
            return None

    def read_range(self, name: str, start: int, end: int, version: Version) -> bytes:
        """These bytes of an object of that version.

        Raises:
            Conflict: it is of another version, or shorter, or gone.
        """
        import obstore
        from obstore.exceptions import PreconditionError

        try:
            with self._errors(f'be read ({name})', (PreconditionError, FileNotFoundError)):
                result = obstore.get(self._objects, name, options={'range': (start, end), 'if_match': version.e_tag})
            if result.meta['e_tag'] != version.e_tag:
                raise Conflict(f'{self.url}: {name} was changed')
            content = b''.join(self._content(name, result))
        except (PreconditionError, FileNotFoundError, ObjectChanged):
            raise Conflict(f'{self.url}: {name} was changed or removed') from None
        if len(content) != end - start:
            raise Conflict(f'{self.url}: {name} was changed')
        return content

    def read(self, name: str) -> tuple[bytes, Version] | None:
        """The content of a small object; None: it is not there."""
        try:
            found, content = self._open(name, None)
            return b''.join(content), found.version
        except ObjectChanged as error:  # a small one is fetched at once, unless the line is bad
            raise StoreUnavailable(str(error)) from None
        except FileNotFoundError:
            return None

    def chunks(self, name: str) -> Iterator[bytes]:
        """The content of an object. Raises FileNotFoundError as well."""
        return self.open(name)[1]

    def open(self, name: str, part: range | None = None) -> tuple[Object, Iterator[bytes]]:
        """An object as it is now, and its content; of that `part`, which must not be empty, if one is given.

        Raises:
            FileNotFoundError: as `chunks`.
            ObjectChanged: when the content is read. All that was read until then is of the object as it was.
        """
        return self._open(name, part)

    def _open(self, name: str, part: range | None) -> tuple[Object, Iterator[bytes]]:
        import obstore

        with self._errors(f'be read ({name})'):
            result = obstore.get(self._objects, name, options={'range': (part.start, part.stop)} if part else None)
            return _object(result.meta), self._content(name, result)

    def _content(self, name: str, result: Any) -> Iterator[bytes]:
        """What an answer holds. A request has a bound, which a large object on a slow line exceeds: as long as each
        brings something, another is sent for the rest of the same version."""
        found, (at, end) = _object(result.meta), result.range
        while at < end:
            before = at
            try:
                result = result or self._rest(name, at, end, found)
                with self._errors(f'be read ({name})', ()):
                    for chunk in result.stream(min_chunk_size=_CHUNK_BYTES):
                        at += len(chunk)
                        yield bytes(chunk)
                if at < end:
                    raise StoreUnavailable(f'{self.url} cannot be read ({name}): the answer is too short')
            except StoreUnavailable:
                if at == before:
                    raise
            result = None

    def _rest(self, name: str, start: int, end: int, found: Object) -> Any:
        """The answer with these bytes of an object. Raises ObjectChanged."""
        import obstore
        from obstore.exceptions import PreconditionError

        options: Any = {'range': (start, end), **({'if_match': found.version.e_tag} if found.version.e_tag else {})}
        with contextlib.suppress(PreconditionError, FileNotFoundError):
            with self._errors(f'be read ({name})', (PreconditionError, FileNotFoundError)):
                result = obstore.get(self._objects, name, options=options)
            if _object(result.meta) == found:
                return result
        raise ObjectChanged(f'{self.url}: {name} was changed or removed while it was fetched')

    def write(self, name: str, content: bytes, replaces: Version | None) -> Version:
        """Writes an object in one request, on the condition that it is of that version; None: that it is not there.

        Raises:
            Conflict: it is of another version. Not where it holds this very content already: an answer of the store
                may have been lost, and the request sent again.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            with self._errors(f'be written ({name})', (AlreadyExistsError, PreconditionError, FileNotFoundError)):
                mode = self._mode(name, replaces)
                return _version(obstore.put(self._objects, name, content, mode=mode, use_multipart=False))
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            pass
        found = self.read(name)
        if found and found[0] == content:
            return found[1]
        raise Conflict(f'{self.url}: {name} was written by somebody else')

    def write_parts(self, name: str, size: int, content: Iterable[bytes]) -> Version:
        """Writes a large object, without a condition. It is visible when all of it has arrived.

        Args:
            size: of the content, in bytes.
        """
        import obstore

        with self._errors(f'be written ({name})'):
            return _version(obstore.put(self._objects, name, iter(content), **_in_parts(size)))

    def put_file(self, name: str, path: str) -> None:
        """Writes an object from a file, whatever is there. It is visible when all of it has arrived."""
        import obstore

        with open(path, 'rb') as file, self._errors(f'be written ({name})'):
            size = os.fstat(file.fileno()).st_size
            large = size > ONE_REQUEST_BYTES
            obstore.put(self._objects, name, file, **(_in_parts(size) if large else {'use_multipart': False}))

    def delete(self, name: str) -> None:
        """Deletes an object, if it is there."""
        import obstore

        with contextlib.suppress(FileNotFoundError), self._errors(f'be deleted from ({name})'):
            obstore.delete(self._objects, name)

    def _mode(self, name: str, replaces: Version | None) -> Any:
        import obstore

        if replaces is None:
            return 'create' if self.conditional else 'overwrite'
        if self.conditional and (replaces.number or not self.url.startswith('gs:')):
            return {key: text for key, text in zip(('e_tag', 'version'), replaces) if text}
        meta = obstore.head(self._objects, name)  # it says what a list of Google's does not
        if meta['e_tag'] != replaces.e_tag:
            raise Conflict(f'{self.url}: {name} was written by somebody else')
        return {'e_tag': meta['e_tag'], 'version': meta['version']} if self.conditional else 'overwrite'

    def _errors(self, done: str, passed: tuple = (FileNotFoundError,)) -> contextlib.AbstractContextManager[None]:
        """Turns obstore's errors into ours, but for those in `passed`."""
        return store_errors.translated(f'{self.url} cannot {done}', passed)


def _in_parts(size: int) -> Any:
    """The options of a request that sends so many bytes."""
    part = max(_PART_BYTES, math.ceil(size / _MOST_PARTS))
    return {'use_multipart': True, 'chunk_size': part, 'max_concurrency': _AT_ONCE}


def _object(meta: Any) -> Object:
    return Object(meta['size'], Version(_quoted(meta['e_tag']), meta['version']), meta['last_modified'].timestamp())


def _version(result: Any) -> Version:
    return Version(result['e_tag'], result['version'])


def _quoted(e_tag: str | None) -> str | None:
    """A list of Azure's has ETags without the quotes that belong to them."""
    return e_tag and (e_tag if e_tag.endswith('"') else f'"{e_tag}"')
