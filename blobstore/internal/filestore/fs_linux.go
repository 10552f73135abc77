package filestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func renameNoReplace(from, to string) error {
	for {
		err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return &os.LinkError{Op: "renameat2", Old: from, New: to, Err: err}
		}
		return nil
	}
}

// fsNames are the magic numbers of statfs(2) that users may meet without links.
var fsNames = map[int64]string{
	unix.MSDOS_SUPER_MAGIC: "vfat", 0x2011bab0: "exfat", 0x65735546: "fuse", unix.NFS_SUPER_MAGIC: "nfs",
	unix.SMB_SUPER_MAGIC: "smb", 0xff534d42: "cifs", 0xfe534d42: "smb2", unix.V9FS_MAGIC: "9p",
	unix.OVERLAYFS_SUPER_MAGIC: "overlayfs", unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs",
	unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
}

// fileSystem names the file system that holds path, for messages.
func fileSystem(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &st); err != nil {
		return "unknown (statfs: " + err.Error() + ")"
	}
	if name := fsNames[int64(st.Type)]; name != "" {
		return name
	}
	return fmt.Sprintf("of type %#x", st.Type)
}
