package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// TestMain lets the test binary be a contender in a process of its own.
func TestMain(m *testing.M) {
	if role := os.Getenv("LOCAL_TEST_ROLE"); role != "" {
		if err := play(role, os.Getenv("LOCAL_TEST_DIR")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func play(role, dir string) error {
	switch role {
	case "open":
		_, err := Open(dir, contender("orders", "a"), nil)
		return err
	case "contend":
		return contend(dir, os.Getenv("LOCAL_TEST_NAME"))
	case "watch without inotify":
		return watchWithoutInotify(dir)
	}
	return fmt.Errorf("no role %q", role)
}

// child is this test binary in that role, ended with the test.
func child(t *testing.T, role, dir string, env ...string) *exec.Cmd {
	t.Helper()
	// Not the path, which another user may not reach.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), append(env, "LOCAL_TEST_ROLE="+role, "LOCAL_TEST_DIR="+dir)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	return cmd
}

// nobody is a user whose limits no other test on this machine uses up.
const nobody = 54321

func asNobody(t *testing.T, cmd *exec.Cmd, dir string) {
	t.Helper()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
}

func TestOpenRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":                                  "not absolute",
		"relative/dir":                      "not absolute",
		file:                                "is not a directory",
		filepath.Join(file, "below"):        "not a directory",
		filepath.Join(dir, "a", "b"):        filepath.Join(dir, "a") + " does not exist",
		filepath.Join(dir, "nul\x00"):       "cannot be",
		strings.Repeat("/long", 5000) + "/": "cannot be",
	} {
		if b, err := Open(path, contender("orders", "a"), nil); err == nil || !strings.Contains(err.Error(), want) || b != nil {
			t.Errorf("%.80q: got %v, want %q in it", path, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
		t.Error("a directory was created for a path that was refused")
	}
	if _, err := Open(dir, election.Contender{}, nil); err == nil {
		t.Error("an empty contender was accepted")
	}
}

func TestOpenCreatesTheLastDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "leaf") + "/"
	for range 2 {
		if _, err := Open(dir, contender("orders", "a"), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenNamesTheRemedyForADirectoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "leaf")} {
		cmd := child(t, "open", path)
		asNobody(t, cmd, dir)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), path) || !strings.Contains(string(out), "for user 54321") {
			t.Errorf("%s: got %q (%v)", path, out, err)
		}
	}
}

func TestFileNamesAreSafeAndUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, mutex := range []string{
		"orders", "Orders", "ORDERS", "orders ", "or/ders", "or%2Fders", "or_ders", "..", ".", "/", "\\", "CON",
		"straße", "STRASSE", "strasse", "é", "e\u0301", "\n", "'\"`", "日本語", "日本話", "orders.lock", "orders.json",
		strings.Repeat("x", election.MaxMutexLength), strings.Repeat("😀", election.MaxMutexLength), strings.Repeat("\U0010ffff", election.MaxMutexLength),
	} {
		name := fileName(mutex)
		if other, taken := seen[strings.ToLower(name)]; taken {
			t.Errorf("%q and %q share %s", mutex, other, name)
		}
		seen[strings.ToLower(name)] = mutex
		if filepath.Base(name) != name || len(name) > 120 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("%q has the file name %s", mutex, name)
		}
	}
}
