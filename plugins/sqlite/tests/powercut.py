"""A file system that forgets what was not synced, to pull the plug on SQLite at any moment."""

# ruff: noqa: N802 - the methods have the names that SQLite gives them
from __future__ import annotations

import apsw
import attrs

from .tools import chance


@attrs.define
class Disk:
    """A file as it would be after a power cut, and the writes that are still on their way to it."""

    durable: bytes = b""
    waiting: list = attrs.field(factory=list)

    def settle(self):
        """Everything has arrived."""
        self.durable = self.after(self.waiting)
        self.waiting = []

    def after(self, writes):
        """The content when these writes have arrived."""
        data = bytearray(self.durable)
        for offset, piece in writes:
            if piece is None:
                del data[offset:]
            else:
                data.extend(bytes(max(0, offset + len(piece) - len(data))))
                data[offset : offset + len(piece)] = piece
        return bytes(data)


class PowerCut(apsw.VFS):
    """Files that survive only as far as they were synced.

    `images` has one entry for each moment before and after a sync: what the files would hold if the power failed then
    and nothing that was waiting had arrived, or some of it, and how many acknowledgements had been given.
    """

    def __init__(self, name):
        super().__init__(name, "")
        self.name = name
        self.disks = {}
        self.images = []
        self.acknowledged = []
        self.is_broken = False
        self._random = chance(7)

    def xOpen(self, name, flags):
        return _File(self, name, flags)

    def xDelete(self, name, sync):
        super().xDelete(name, sync)
        self.disks.pop(name, None)

    def cut(self):
        """Note what a power cut at this moment would leave."""
        for some in (False, True):
            files = {}
            for name, disk in self.disks.items():
                arrived = [write for write in disk.waiting if some and self._random.random() < 0.5]
                files[name] = disk.after(arrived)
            self.images.append((files, len(self.acknowledged)))


class _File(apsw.VFSFile):
    def __init__(self, vfs, name, flags):
        super().__init__("", name, flags)
        self._vfs = vfs
        self._disk = None
        if name is not None:
            path = name.filename() if isinstance(name, apsw.URIFilename) else name
            self._disk = vfs.disks.setdefault(path, Disk())

    def xWrite(self, data, offset):
        super().xWrite(data, offset)
        if self._disk is not None:
            self._disk.waiting.append((offset, bytes(data)))

    def xTruncate(self, size):
        super().xTruncate(size)
        if self._disk is not None:
            self._disk.waiting.append((size, None))

    def xSync(self, flags):
        if self._vfs.is_broken:
            error = apsw.IOError("the disk does not answer")
            error.extendedresult = apsw.SQLITE_IOERR_FSYNC
            raise error
        self._vfs.cut()
        super().xSync(flags)
        if self._disk is not None:
            self._disk.settle()
        self._vfs.cut()
