//! Whether the file is on a network file system, as far as Linux says.

use std::path::Path;

/// File systems that other machines can mount at the same time. A write-ahead log needs shared memory, so two machines
/// on one file would each have a ledger of their own.
///
/// `9p` and `virtiofs` are not among them: they often carry a container's own root, which nobody else has.
const NETWORK: [&str; 15] = [
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "fuse.ceph",
    "fuse.glusterfs",
    "fuse.s3fs",
    "fuse.sshfs",
    "gfs2",
    "glusterfs",
    "lustre",
    "nfs",
    "nfs4",
    "ocfs2",
    "smb3",
];

/// The network file system that holds this path, if one does. The path is absolute and has no symbolic links.
pub(crate) fn network_file_system(path: &Path) -> Option<String> {
    // Elsewhere than on Linux there is no such list, and no answer.
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    kind_of(&String::from_utf8_lossy(&mounts), path).filter(|kind| NETWORK.contains(&kind.as_str()))
}

/// The kind of the innermost mount around a path; of two at one place, the later one, which hides the other.
fn kind_of(mounts: &str, path: &Path) -> Option<String> {
    let around = mounts.lines().filter_map(|line| {
        // id, parent, device, root, mount point, options, any number of tags, "-", kind, source, options
        let (before, after) = line.split_once(" - ")?;
        let point = unescape(before.split(' ').nth(4)?);
        let depth = Path::new(&point).components().count();
        path.starts_with(&point)
            .then(|| (depth, after.split(' ').next()))
    });
    around.max_by_key(|(depth, _)| *depth)?.1.map(str::to_owned)
}

/// Spaces and the like are written as a backslash and three octal digits.
fn unescape(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (escape, plain)| {
        text.replace(escape, plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:25 / /srv rw,relatime shared:5 master:2 - ext4 /dev/vdb rw
31 30 0:44 / /srv/shared rw - nfs4 files:/export rw,vers=4.2
32 22 0:45 / /mnt/two\\040words rw - cifs //files/x rw
33 22 0:46 / /over rw - nfs files:/a rw
34 22 0:47 / /over rw - tmpfs tmpfs rw
";

    #[test]
    fn case_103_the_innermost_mount_says_what_it_is() {
        let kind = |path: &str| kind_of(MOUNTS, Path::new(path)).unwrap();
        assert_eq!(kind("/var/lib/ledger.sqlite"), "ext4");
        assert_eq!(kind("/srv/ledger.sqlite"), "ext4");
        assert_eq!(kind("/srv/shared/ledger.sqlite"), "nfs4");
        assert_eq!(
            kind("/srv/sharedness/ledger.sqlite"),
            "ext4",
            "a name that only begins like the mount point's"
        );
        assert_eq!(kind("/mnt/two words/ledger.sqlite"), "cifs");
        assert_eq!(
            kind("/over/ledger.sqlite"),
            "tmpfs",
            "the later mount hides the earlier one"
        );
        assert_eq!(kind_of("", Path::new("/x")), None);
    }

    #[test]
    fn case_103_what_other_machines_mount_is_a_network_file_system() {
        for kind in ["nfs", "nfs4", "cifs", "ceph", "fuse.sshfs"] {
            assert!(NETWORK.contains(&kind), "{kind}");
        }
        for kind in ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "apfs"] {
            assert!(!NETWORK.contains(&kind), "{kind}");
        }
    }

    #[test]
    fn this_machines_temporary_folder_is_local() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            network_file_system(&folder.path().canonicalize().unwrap()),
            None
        );
    }
}
