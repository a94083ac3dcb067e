package localfs

import "golang.org/x/sys/unix"

const bootIDSource = "kern.bootsessionuuid"

func bootID() (string, error) { return unix.Sysctl(bootIDSource) }

func sharedKind(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", err
	}
	if st.Flags&unix.MNT_LOCAL != 0 {
		return "", nil
	}
	return unix.ByteSliceToString(st.Fstypename[:]), nil
}
