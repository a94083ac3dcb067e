package localfs_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/simba-sidecar/simba-sidecar/internal/localfs"
)

// TestMain lets the test binary run with a mount namespace of its own.
func TestMain(m *testing.M) {
	if dir := os.Getenv("LOCALFS_TEST_DIR"); dir != "" {
		if err := mountFUSE(dir); err != nil {
			fmt.Println("cannot mount:", err)
			os.Exit(0)
		}
		fmt.Println(localfs.CheckLocal(dir))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestRefusesFUSEByTheNameOfItsKind(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), "LOCALFS_TEST_DIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil && errors.Is(err, unix.EPERM) || strings.HasPrefix(string(out), "cannot mount") {
		t.Skipf("this machine mounts no FUSE for us: %v: %s", err, out)
	}
	if want := dir + " is on fuse.remote, where locks of other machines may be invisible"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("got %s (%v), want %q in it", out, err, want)
	}
}

// mountFUSE mounts a file system that consists of nothing but its root, and serves it until the process
// ends.
func mountFUSE(dir string) error {
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())
	if err := unix.Mount("test", dir, "fuse.remote", 0, options); err != nil {
		return err
	}
	go func() {
		request := make([]byte, 1<<17)
		for {
			n, err := device.Read(request)
			if err != nil || n < 40 {
				return
			}
			if _, err := device.Write(answerFUSE(request[:n])); err != nil {
				return
			}
		}
	}()
	return nil
}

// answerFUSE speaks the part of linux/fuse.h that mounting, stat and statfs need.
func answerFUSE(request []byte) []byte {
	order := binary.NativeEndian
	var body []byte
	var errno int32
	switch order.Uint32(request[4:]) { // opcode
	case 26: // FUSE_INIT: major, minor
		body = make([]byte, 64)
		order.PutUint32(body, 7)
		order.PutUint32(body[4:], 31)
	case 17: // FUSE_STATFS
		body = make([]byte, 80)
	case 3: // FUSE_GETATTR: a directory with one link
		body = make([]byte, 104)
		order.PutUint32(body[76:], unix.S_IFDIR|0o755)
		order.PutUint32(body[80:], 1)
	default:
		errno = -int32(unix.ENOSYS)
	}
	head := make([]byte, 16)
	order.PutUint32(head, uint32(16+len(body)))
	order.PutUint32(head[4:], uint32(errno))
	order.PutUint64(head[8:], order.Uint64(request[8:])) // the request's number
	return append(head, body...)
}
