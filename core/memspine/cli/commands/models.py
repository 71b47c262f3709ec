"""The files of models that installed plugins can use: which there are, fetching them, where they are.

Nothing is downloaded unless `models fetch` is asked to. It goes on where an earlier one ended, takes the proxy that the
environment names, and a file gets its name when its size and its SHA-256 are right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memspine.cli.codes import InputError, UsageError

if TYPE_CHECKING:
    import argparse

    from memspine.cli.output import Output
    from memspine.modelfiles import Fetched, Offered, Progress

HAS_ACTIONS: Final = True
"""The word after the command decides about the rest."""

_FROM: Final = "an address (also http) or a folder that holds the model's files under their paths, in place of the net"


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    from memspine.cli.parser import Parser, add_global_options

    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    for name, help in (
        ("list", "the models that plugins can use, and which of them are here"),
        ("fetch", "download a model into the data folder"),
        ("path", "the folder of a model"),
    ):
        action = actions.add_parser(name, help=help, description=help)
        if name != "list":
            action.add_argument("name", metavar="NAME", help="the name of the model, as `models list` shows it")
        if name == "fetch":
            action.add_argument("--from", dest="origin", metavar="PLACE", help=_FROM)
        add_global_options(action)


def run(options: argparse.Namespace, out: Output) -> int:
    """Do what the action says."""
    {"list": _list, "fetch": _fetch, "path": _path}[options.action](options, out)
    return 0


def _list(options: argparse.Namespace, out: Output) -> None:
    from memspine.cli.opening import load
    from memspine.modelfiles import offered
    from memspine.plugins import Plugins

    plugins = Plugins()
    found = offered(plugins, data_folder=load(options, out, plugins).data_folder)
    if out.json:
        out.data({"data": [_to_wire(one) for one in found], "total": len(found)})
        return
    columns = ("name", "plugin", "size", "licence", "state", "summary")
    if found or not out.is_terminal:
        out.table(columns, [_row(one) for one in found])
    if not found:
        out.remark("no installed plugin needs the files of a model")


def _fetch(options: argparse.Namespace, out: Output) -> None:
    from memspine.cli.files import named_path
    from memspine.cli.opening import load
    from memspine.modelfiles import ModelFilesError, fetch_model, find, origin_of
    from memspine.plugins import Plugins

    plugins = Plugins()
    data_folder = load(options, out, plugins).data_folder
    model = find(plugins, options.name)
    place = options.origin
    if place is not None and "://" not in place:
        place = str(named_path(place))
    try:
        origin = origin_of(model.name, place)
    except ModelFilesError as error:
        raise UsageError(f"--from: {error}") from error
    try:
        fetched = fetch_model(
            model,
            data_folder=data_folder,
            origin=origin,
            on_progress=lambda progress: out.progress(_progress_text(model.name, progress)),
            on_wait=lambda: out.note("another process is fetching this model; waiting for it"),
        )
    except OSError as error:
        raise InputError(f"{error.filename or data_folder}: {error.strerror or error}") from error
    finally:
        out.progress("")
    _answer(model.name, fetched, out)


def _answer(name: str, fetched: Fetched, out: Output) -> None:
    if out.json:
        files = list(fetched.files)
        out.data({"name": name, "path": str(fetched.folder), "fetched": files, "bytesRead": fetched.bytes_read})
        return
    said = f"{len(fetched.files)} files fetched" if fetched.files else "is there already"
    out.cells(str(fetched.folder), said)


def _path(options: argparse.Namespace, out: Output) -> None:
    from memspine.cli.opening import load
    from memspine.modelfiles import find, offered
    from memspine.plugins import Plugins

    plugins = Plugins()
    data_folder = load(options, out, plugins).data_folder
    find(plugins, options.name)
    one = next(one for one in offered(plugins, data_folder=data_folder) if one.model.name == options.name)
    if out.json:
        out.data({"name": options.name, "path": str(one.folder), "state": one.state})
        return
    out.line(str(one.folder))
    if one.state != "present":
        out.note(f"it is {one.state}; `memspine models fetch {options.name}` fetches it")


def _to_wire(one: Offered) -> dict[str, Any]:
    model = one.model
    return {
        "name": model.name,
        "plugin": model.plugin,
        "summary": model.summary,
        "licence": model.licence,
        "sizeBytes": one.size_bytes,
        "state": one.state,
        "path": str(one.folder),
        "files": [{"path": f.path, "url": f.url, "sha256": f.sha256, "sizeBytes": f.size_bytes} for f in model.files],
    }


def _row(one: Offered) -> tuple[str, ...]:
    model = one.model
    return (model.name, model.plugin, _megabytes(one.size_bytes), model.licence, one.state, model.summary)


def _progress_text(name: str, progress: Progress) -> str:
    return f"{name}: {progress.done / 1e6:.1f} of {_megabytes(progress.total)}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
