package localfs

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const bootIDSource = "/proc/sys/kernel/random/boot_id"

func bootID() (string, error) {
	b, err := os.ReadFile(bootIDSource)
	return string(b), err
}

// sharedMagic names the file system whose files other machines can write, by the magic number that
// statfs(2) reports, or returns "". Numbers without a constant are from those systems' own sources.
func sharedMagic(magic uint32) string {
	switch magic {
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "smb"
	case unix.CIFS_SUPER_MAGIC:
		return "cifs"
	case unix.NCP_SUPER_MAGIC:
		return "ncpfs"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "afs"
	case unix.CODA_SUPER_MAGIC:
		return "coda"
	case unix.CEPH_SUPER_MAGIC:
		return "ceph"
	case unix.OCFS2_SUPER_MAGIC:
		return "ocfs2"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.FUSE_SUPER_MAGIC: // virtiofs too
		return "fuse"
	case unix.HOSTFS_SUPER_MAGIC:
		return "hostfs"
	case 0x01161970:
		return "gfs2"
	case 0x0bd00bd0:
		return "lustre"
	case 0x20030528:
		return "orangefs"
	case 0x47504653:
		return "gpfs"
	case 0x19830326:
		return "beegfs"
	case 0xaad7aaea:
		return "panfs"
	case 0x786f4256:
		return "vboxsf"
	case 0xbacbacbc:
		return "vmhgfs"
	case 0x7c7c6673:
		return "prl_fs"
	}
	return ""
}

func sharedKind(dir string) (string, error) {
	var st unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return "", err
	}
	// The field's width and sign differ between architectures; the number has 32 bits.
	kind := sharedMagic(uint32(st.Type)) //nolint:gosec // cut to 32 bits on purpose
	if kind == "" {
		return "", nil
	}
	if exact := mountedAs(dir); exact != "" {
		kind = exact
	}
	return kind, nil
}

// mountedAs returns the name of dir's file system from the mount table, which tells apart what shares
// one magic number ("virtiofs", "fuse.sshfs"), or "" if it is not found there.
func mountedAs(dir string) string {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Stat(dir, &st) }); err != nil {
		return ""
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	device := fmt.Sprintf("%d:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))) //nolint:unconvert // 32 bits on some architectures
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// id parent major:minor root mountpoint options [tags] - type source options
		mount, fs, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(mount); len(fields) > 2 && fields[2] == device {
			kind, _, _ := strings.Cut(fs, " ")
			return kind
		}
	}
	return ""
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // a bare errno
			return err
		}
	}
}
