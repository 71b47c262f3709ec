"""Which of the ways to compare vectors is there, and which one answers a question."""

from __future__ import annotations

import importlib.util
import threading
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import apsw

from memspine_sqlite import sql
from memspine_sqlite.config import Engine
from memspine_sqlite.nearest import Found, Question
from memspine_sqlite.scanning import Scanner, scan_in_python, scan_in_sql
from memspine_sqlite.shelves import Shelf
from memspine_sqlite.spaces import Layout

if TYPE_CHECKING:
    from memspine_sqlite.matrix import Matrix, View

_VERSION = "v0.1."
_SAME = "0000803f00000040"  # the vector (1, 2)
_ASKED_MAX = 10_000


def extension_path() -> Path | None:
    """Where the library of the package sqlite-vec is; the package itself would import numpy if that is there."""
    spec = importlib.util.find_spec("sqlite_vec")
    return None if spec is None or spec.origin is None else Path(spec.origin).with_name("vec0")


class Extension:
    """sqlite-vec: found and loaded when the first question needs it, into each connection by itself."""

    def __init__(self) -> None:
        self.problem = ""
        self.version = ""

    def is_ready(self, connection: apsw.Connection) -> bool:
        """Whether its functions work in a connection. Once it has failed it is not tried again."""
        if self.problem:
            return False
        try:
            connection.execute("SELECT vec_version()")
        except apsw.SQLError:
            return self._load(connection)
        return True

    def _load(self, connection: apsw.Connection) -> bool:
        path = extension_path()
        if path is None:
            self.problem = "sqlite-vec is not installed"
            return False
        try:
            connection.enable_load_extension(True)
            try:
                connection.load_extension(str(path))
            finally:
                connection.enable_load_extension(False)
            self.version = sql.value(connection, "SELECT vec_version()")
            distance = sql.value(connection, f"SELECT vec_distance_cosine(x'{_SAME}', x'{_SAME}')")
        except apsw.Error as error:
            self.problem = f"sqlite-vec cannot be loaded: {error}"
            return False
        if not self.version.startswith(_VERSION) or abs(distance) > 1e-5:
            self.problem = f"sqlite-vec {self.version} is not one that this release knows ({_VERSION}x)"
        return not self.problem


class Numpy:
    """The module that needs numpy, imported when the first question needs it."""

    def __init__(self) -> None:
        self.problem = ""
        self._module: ModuleType | None = None

    def is_there(self) -> bool:
        """Whether it can be imported, as far as one can tell without doing so, which takes a tenth of a second."""
        if not self.problem and self._module is None and importlib.util.find_spec("numpy") is None:
            self.problem = "numpy is not installed"
        return not self.problem

    def is_ready(self) -> bool:
        """Whether it is imported and works."""
        if not self.is_there():
            return False
        if self._module is None:
            try:
                from memspine_sqlite import matrix
            except ImportError as error:
                self.problem = f"numpy cannot be imported: {error}"
                return False
            if not matrix.is_usable():
                self.problem = "numpy is older than 2.0"
                return False
            self._module = matrix
        return True


class Engines:
    """Answers each question in the way that is fastest for it. Every way gives the same answer.

    A shelf that is asked about for the first time is scanned, because loading its matrix costs more than one scan; from
    the second time on it is kept as a matrix, if `matrix_mb` has room for it.
    """

    def __init__(self, engine: Engine = "auto", *, matrix_mb: int = 256) -> None:
        self.engine = engine
        self.extension = Extension()
        self.numpy = Numpy()
        self._bytes_max = matrix_mb << 20
        self._lock = threading.Lock()
        self._matrices: OrderedDict[int, _Kept] = OrderedDict()
        self._asked: OrderedDict[int, None] = OrderedDict()
        self._dropped: set[int] = set()

    def nearest(self, connection: apsw.Connection, shelf: Shelf, question: Question) -> Found:
        """The best of a shelf."""
        view = None
        if self._wants_matrix(connection, shelf, question):
            view = self._view(connection, shelf, question.layout)
        if view is not None:
            from memspine_sqlite import matrix

            return matrix.nearest(connection, view, question)
        if self.engine in {"auto", "numpy", "sqlite-vec"} and self.extension.is_ready(connection):
            return Scanner(scan_in_sql).nearest(connection, shelf, question)
        return Scanner(scan_in_python).nearest(connection, shelf, question)

    def name(self, connection: apsw.Connection) -> str:
        """What answers, once a shelf is asked about again."""
        if self.engine in {"auto", "numpy"} and self._bytes_max and self.numpy.is_there():
            return "numpy"
        is_wanted = self.engine != "python" and self.extension.is_ready(connection)
        return "sqlite-vec" if is_wanted else "python"

    def forget(self) -> None:
        """Drop every matrix: what was purged is not to stay in memory."""
        with self._lock:
            self._matrices.clear()

    def drop(self, space: int) -> None:
        """Drop the matrices of a space that is gone, by its number."""
        with self._lock:
            # A question that began before may still come with its snapshot.
            self._dropped.add(space)
            for number in [number for number, kept in self._matrices.items() if kept.space == space]:
                del self._matrices[number]

    @property
    def kept_bytes(self) -> int:
        """How much memory the matrices take."""
        with self._lock:
            return sum(kept.bytes for kept in self._matrices.values())

    def _wants_matrix(self, connection: apsw.Connection, shelf: Shelf, question: Question) -> bool:
        if self.engine not in {"auto", "numpy"}:
            return False
        with self._lock:
            is_kept = shelf.number in self._matrices
            was_asked = is_kept or shelf.number in self._asked
            self._asked[shelf.number] = None
            if len(self._asked) > _ASKED_MAX:
                self._asked.popitem(last=False)
        if not is_kept and not self.numpy.is_there():
            return False
        if not was_asked and self.engine == "auto" and self.extension.is_ready(connection):
            return False
        if not self.numpy.is_ready():
            return False
        from memspine_sqlite import matrix

        return matrix.estimated_bytes(shelf, question.layout) <= self._bytes_max

    def _view(self, connection: apsw.Connection, shelf: Shelf, layout: Layout) -> View | None:
        with self._lock:
            if layout.number in self._dropped:
                return None
            kept = self._matrices.setdefault(shelf.number, _Kept(layout.number))
            self._matrices.move_to_end(shelf.number)
        view = kept.view(connection, shelf, layout)
        with self._lock:
            used = sum(other.bytes for other in self._matrices.values())
            while used > self._bytes_max and len(self._matrices) > 1:
                number, oldest = self._matrices.popitem(last=False)
                self._asked.pop(number, None)
                used -= oldest.bytes
        return view


class _Kept:
    """The matrix of one shelf, brought up by one thread at a time."""

    def __init__(self, space: int) -> None:
        self.space = space
        self._lock = threading.Lock()
        self._matrix: Matrix | None = None
        self.bytes = 0

    def view(self, connection: apsw.Connection, shelf: Shelf, layout: Layout) -> View | None:
        """The matrix at the shelf's version; None where it is at a later one, which another question has seen.

        Such a matrix holds what this question's snapshot does not, and has lost what it does. A second matrix would
        cost more than a scan.
        """
        from memspine_sqlite import matrix

        with self._lock:
            found = self._matrix
            if found is None:
                found = matrix.matrix_of(connection, shelf, layout)
            elif found.version > shelf.version:
                return None
            elif found.version < shelf.version:
                found.refresh(connection, shelf)
                if found.is_sparse:
                    found = matrix.matrix_of(connection, shelf, layout)
            self._matrix = found
            self.bytes = found.bytes
            return found.view()
