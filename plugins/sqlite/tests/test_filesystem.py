from pathlib import Path

import pytest

from memspine_sqlite import database, filesystem
from memspine_sqlite.filesystem import Mount, mount_of, parse_mounts, remote_type

from .tools import add, ids_of, opened, run, value

MOUNTINFO = r"""
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
30 22 0:26 / /people/ann/Team\040Files rw,nosuid shared:12 master:3 - fuse.sshfs ann@host:/srv rw,user_id=1000
31 22 0:27 / /mnt/share rw - nfs4 server:/export rw,vers=4.2,addr=192.0.2.1
32 31 8:17 / /mnt/share/local rw shared:5 - xfs /dev/sdb1 rw
33 22 0:28 / /mnt/twice rw - tmpfs tmpfs rw
34 33 0:29 / /mnt/twice rw - cifs //server/share rw
35 22 0:30 / /mnt/back\134slash rw - 9p host rw
this line is none
"""


@pytest.mark.parametrize(
    ("path", "type", "is_remote"),
    [
        ("/", "ext4", False),
        ("/mnt/shared/m.db", "ext4", False),
        ("/people/ann/Team Files/m.db", "fuse.sshfs", True),
        ("/people/ann/Team Files", "fuse.sshfs", True),
        ("/mnt/share/m.db", "nfs4", True),
        ("/mnt/share/local/deep/m.db", "xfs", False),
        ("/mnt/twice/m.db", "cifs", True),
        ("/mnt/back\\slash/m.db", "9p", True),
    ],
)
def test_which_mount_holds_a_path(path, type, is_remote):
    """The longest mount point above a path holds it, of several at one point the last; names are unescaped."""
    mount = mount_of(Path(path), parse_mounts(MOUNTINFO))
    assert (mount.type, mount.is_remote) == (type, is_remote)


@pytest.mark.parametrize(
    ("type", "is_remote"),
    [
        ("nfs", True),
        ("smb3", True),
        ("virtiofs", True),
        ("fuse.rclone", True),
        ("fuse.something-new", True),
        ("fuse.fuse-overlayfs", False),
        ("fuseblk", False),
        ("overlay", False),
        ("btrfs", False),
        ("tmpfs", False),
    ],
)
def test_which_file_systems_are_remote(type, is_remote):
    """Network and virtual machine shares are remote, and so is whatever is unknown on FUSE."""
    assert Mount("/", type).is_remote is is_remote


def test_where_nothing_is_known(tmp_path, monkeypatch):
    """Where mounts cannot be read, or none holds the path, the file system counts as local."""
    monkeypatch.setattr(filesystem, "MOUNTS", tmp_path / "missing")
    assert remote_type(tmp_path) is None
    assert mount_of(Path("/x"), []) is None


def test_a_link_leads_to_the_file_system(tmp_path, monkeypatch):
    """A link into a remote folder is remote."""
    remote = tmp_path / "remote"
    remote.mkdir()
    (tmp_path / "link").symlink_to(remote)
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / {remote} rw - nfs x rw\n")
    monkeypatch.setattr(filesystem, "MOUNTS", mounts)
    assert remote_type(tmp_path / "link" / "m.db") == "nfs"
    assert remote_type(tmp_path / "m.db") is None


def test_a_remote_store_has_no_log(tmp_path, monkeypatch):
    """On a remote file system the store works without a write-ahead log, also when it had one, and health says so."""
    path = tmp_path / "store.db"

    async def go():
        async with opened(path) as store:
            await add(store, "a", "walnut")
            assert value(store, "PRAGMA journal_mode") == "wal"
        monkeypatch.setattr(database, "remote_type", lambda _: "nfs4")
        async with opened(path) as store:
            await add(store, "b", "walnut")
            assert await ids_of(store) == ["a", "b"]
            assert value(store, "PRAGMA journal_mode") == "delete"
            health = await store.health(deep=True)
            assert health.ok
            (finding,) = health.findings
            assert "nfs4" in finding.text
            assert not list(tmp_path.glob("*-wal"))

    run(go())
