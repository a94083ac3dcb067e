// Package localfs tells directories that one machine has to itself from those that it shares, and one
// boot of a machine from the next. flock, rename and inotify keep their promises only among the
// processes of one machine, on a file system that its own kernel keeps.
package localfs

import (
	"fmt"
	"strings"
)

// CheckLocal returns nil if the existing directory dir lies on a file system that only this machine's
// kernel writes. Its error names the kind of file system that is refused: network file systems, what a
// virtual machine's host passes in (9p, virtiofs), and FUSE, which may be any of them. Overlay and
// tmpfs are local.
func CheckLocal(dir string) error {
	kind, err := sharedKind(dir)
	if err != nil {
		return fmt.Errorf("file system of %s: %w", dir, err)
	}
	if kind != "" {
		return fmt.Errorf("%s is on %s, where locks of other machines may be invisible: use a directory on a local disk, a tmpfs or an emptyDir", dir, kind)
	}
	return nil
}

// BootID returns what is the same for all processes from one boot of this machine to the next, and
// never again. Containers share their machine's, except under managers that give each its own
// (systemd-nspawn, LXD): those count as machines.
func BootID() (string, error) {
	id, err := bootID()
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	id = strings.ToLower(strings.TrimSpace(id))
	if id == "" {
		return "", fmt.Errorf("boot id: %s is empty", bootIDSource)
	}
	return id, nil
}
