"""The file system below a database: which kind it is, and files that only their user can read."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import attrs

MOUNTS: Final = Path("/proc/self/mountinfo")
"""Where Linux lists what is mounted."""

_NETWORK_TYPES = frozenset(
    "9p acfs afs beegfs ceph cifs coda davfs drvfs fhgfs gfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs "
    "prl_fs smb3 smbfs vboxsf virtiofs vmhgfs".split()
)
# Everything else on FUSE counts as remote: being slower on a local one is better than being corrupt on a remote one.
_LOCAL_FUSE_TYPES = frozenset(
    f"fuse.{name}"
    for name in "bindfs encfs fuse-overlayfs gocryptfs lxcfs mergerfs ntfs ntfs-3g overlayfs squashfuse unionfs".split()
)
_OCTAL = re.compile(r"\\([0-7]{3})")


@attrs.frozen
class Mount:
    """A mounted file system."""

    point: str
    type: str

    @property
    def is_remote(self) -> bool:
        """Whether its files live on another machine, where shared memory between processes cannot be relied on."""
        return self.type in _NETWORK_TYPES or (self.type.startswith("fuse.") and self.type not in _LOCAL_FUSE_TYPES)


def parse_mounts(text: str) -> list[Mount]:
    """The mounts of a `mountinfo` file, in its order; lines of another shape are passed over."""
    mounts = []
    for line in text.splitlines():
        fields, separator, rest = line.partition(" - ")
        words, types = fields.split(), rest.split()
        if separator and len(words) >= 5 and types:
            mounts.append(Mount(_OCTAL.sub(lambda found: chr(int(found[1], 8)), words[4]), types[0]))
    return mounts


def mount_of(path: Path, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that holds an absolute path: the longest mount point above it, of equal ones the last."""
    best: Mount | None = None
    for mount in mounts:
        if path.is_relative_to(mount.point) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def remote_type(path: Path) -> str | None:
    """The type of the file system that holds `path` when it is a remote one; None when it is local or unknown."""
    try:
        text = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    mount = mount_of(path.resolve(), parse_mounts(text))
    return mount.type if mount is not None and mount.is_remote else None


def make_private_file(path: Path) -> None:
    """Make the file and its missing folders, for their user alone; what is there stays as it is. Raises OSError."""
    for folder in reversed([folder for folder in path.parents if not folder.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        # Opening a pipe would wait for somebody who writes into it.
        if not path.is_file():
            raise IsADirectoryError(None, "it is a folder or a device, not a file", str(path)) from None


def is_open_to_others(path: Path) -> bool:
    """Whether users other than its own may read or write a file; a folder that they cannot enter protects it."""
    others = stat.S_IRWXG | stat.S_IRWXO
    return bool(path.stat().st_mode & others and path.parent.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH))


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut. Raises OSError."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
