"""What to send to the store, what to delete there, and in which order. Pure.

At every moment, whoever reads the store finds a whole run:

- The file `checkpoint` names a checkpoint whose index and data files are there, all of one save.
- A checkpoint with an index, and a SavedModel with a saved_model.pb, has all its other files, all of one save.
- `best.json` and the files in `eval/` name only what is there.

Three rules give this:

1. A file goes after what it names: data, index, `checkpoint`, `.start.json`; then SavedModels, `best.json`, `eval/`.
   (The snapshot reads in the opposite order, so that what a file names is in the snapshot.)
2. The last file of a checkpoint or SavedModel, its index or saved_model.pb, is deleted before others of its files
   change or are deleted. (While a SavedModel is written, its folder has another name. A numbered folder in export/
   without saved_model.pb is no SavedModel: its files are sent last.)
3. What `checkpoint` names never changes. If the newest checkpoint was saved again with other bytes under the same
   name, it goes to the store under another name first, which `checkpoint` then names while the old one is replaced.

Files for TensorBoard are not deleted: no trainer removes them, so that a cleaner of old files has.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from estimator_trainer.run_dir import file_names
from estimator_trainer.storage import names


class Op(NamedTuple):
    """One change of the store. `source` is the local file whose content is put; None: the object is deleted."""

    name: str
    source: str | None


def twin_pointer(checkpoint: str) -> str:
    """The source of a `checkpoint` file that names the twin of a checkpoint."""
    return f'{names.POINTER} of {names.twin_of(checkpoint)}'


def plan(
    local: Mapping[str, str],
    remote: Mapping[str, str | None],
    newest: str | None,
    remote_newest: str | None,
    foreign: Iterable[str] = (),
    keep: int = 0,
) -> list[Op]:
    """The operations that make the store equal to the local files.

    Args:
        local: name -> digest of each local file, and of the sources `names.POINTER` and `twin_pointer(newest)` if
            there is a newest checkpoint.
        remote: name -> digest of the objects in the store that are ours to replace and delete; None: not known.
        newest: the checkpoint that the local file `checkpoint` names; None: none, or one that is not whole.
        remote_newest: the checkpoint that the store's file `checkpoint` names.
        foreign: those names of `remote` that no local file was ever equal to: checkpoints of another machine, and what
            has the name of a part of one.
        keep: of the checkpoints there and here so many are kept, the newest; 0: all.
    """
    there, ops = dict(remote), []

    def put(name: str, source: str) -> None:
        if there.get(name) != local[source]:
            ops.append(Op(name, source))
            there[name] = local[source]

    def delete(name: str) -> None:
        if name in there:
            ops.append(Op(name, None))
            del there[name]

    def put_unit(sources: Mapping[str, str]) -> None:
        """sources: name in the store -> local name, of all files of one checkpoint or SavedModel."""
        units = set(map(names.unit_of, sources))
        stale = [name for name, source in sources.items() if there.get(name) != local[source]]
        stale += [name for name in there if names.unit_of(name) in units and name not in sources]  # of more data files
        # The name of a SavedModel is used once only: what is not known of it is a part of the same one.
        if any(not names.export_of(name) or there.get(name) is not None for name in stale):
            for name in _last_of_unit_first({*filter(names.is_last_of_unit, sources), *stale}):
                if names.is_last_of_unit(name) or name not in sources:
                    delete(name)
        for name in _last_of_unit_last(sources):
            put(name, sources[name])

    units = _units(local, names.with_data([*local, *remote]) | ({newest} if newest else set()))
    for name in filter(names.is_early, local):
        put(name, name)
    if newest:
        files = {name: name for name in units[newest]}
        if newest == remote_newest and any(there.get(name) != local[name] for name in files):
            put_unit({names.twin_of(newest) + name.removeprefix(newest): name for name in files})
            put(names.POINTER, twin_pointer(newest))
        put_unit(files)
        put(names.POINTER, names.POINTER)
    if names.START in local:  # the other tasks wait for it
        put(names.START, names.START)
    pointed = newest or remote_newest
    parts = {unit for unit in units if not names.is_whole(unit, units[unit])}
    for unit in sorted(units.keys() - parts - {pointed}, key=lambda unit: (names.is_export(unit), unit)):
        put_unit({name: name for name in units[unit]})
    done = {names.POINTER, *(name for files in units.values() for name in files)}
    if newest:
        done.add(twin_pointer(newest))
    for name in sorted(local.keys() - done, key=lambda name: (names.late_rank(name), name)):
        put(name, name)
    kept = {pointed, *_kept(set(foreign), units, pointed, keep)}
    gone = [  # and the index of a checkpoint of which data are gone
        name
        for name in there
        if (name not in local or names.is_last_of_unit(name) and names.checkpoint_of(name) in parts)
        and names.checkpoint_of(name) not in kept - {None}
        and not names.is_of_tensorboard(name)
    ]
    for name in sorted(_last_of_unit_first(gone), key=lambda name: not names.is_read_first(name)):  # it names others
        if name != names.POINTER:
            delete(name)
    for unit in sorted(filter(names.is_export, parts)):
        put_unit({name: name for name in units[unit]})
    return ops


def of_new(files: Iterable[str]) -> list[str]:
    """Files that go where nothing is, in the order in which they go: the index of a checkpoint after its data, and
    saved_model.pb after the rest of its folder, wherever that is; `checkpoint` last."""
    return sorted(
        files,
        key=lambda name: (
            name == names.POINTER,
            names.is_last_of_unit(name) or name.rpartition('/')[2] in file_names.SAVED_MODEL,
            name,
        ),
    )


def _units(files: Iterable[str], checkpoints: Collection[str]) -> dict[str, list[str]]:
    """The files of each checkpoint and each SavedModel. Of the job's checkpoints, only of these: what has no data is a
    file like others."""
    units: dict[str, list[str]] = {}
    for name in files:
        unit = names.unit_of(name)
        if unit and (names.is_export(unit) or names.is_of_run(unit) or unit in checkpoints):
            units.setdefault(unit, []).append(name)
    return units


def _last_of_unit_last(files: Iterable[str]) -> list[str]:
    return sorted(files, key=lambda name: (names.is_last_of_unit(name), name))


def _last_of_unit_first(files: Iterable[str]) -> list[str]:
    return sorted(files, key=lambda name: (not names.is_last_of_unit(name), name))


def _kept(foreign: set[str], local: Collection[str], pointed: str | None, keep: int) -> list[str]:
    """Which checkpoints of another machine stay: the newest that are whole, as long as there are at most `keep`. What
    is no checkpoint of a run, by its name or because it has no data, stays."""
    old: dict[str, list[str]] = {}
    for name in sorted(foreign):
        unit = names.checkpoint_of(name)
        if unit and unit not in local and unit != pointed:
            old.setdefault(unit, []).append(name)
    of_run = {unit for unit in names.with_data(foreign) if names.is_of_run(unit)}
    others = [unit for unit in old if unit not in of_run]
    whole = sorted((unit for unit in old if unit in of_run and names.is_whole(unit, old[unit])), key=names.step_of)
    if not keep:
        return others + whole
    ours = {unit for unit in local if not names.is_export(unit)} | ({pointed} if pointed else set())
    return others + whole[max(0, len(whole) - max(0, keep - len(ours))) :]
