package backends_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/pkg/backends"
	"github.com/simba-sidecar/simba-sidecar/pkg/backends/local"
	"github.com/simba-sidecar/simba-sidecar/pkg/backends/mysql"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func contender() election.Contender {
	return election.Contender{Mutex: "orders", Identity: "web-0_k3f9q2ab", TTL: 10 * time.Second, Transition: 6 * time.Second}
}

func TestOpensTheLocalDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "with space")
	b, err := backends.Open("local:"+strings.ReplaceAll(dir, " ", "%20"), contender(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if _, ok := b.(*local.Backend); !ok {
		t.Errorf("got a %T", b)
	}
	if l, err := b.Acquire(t.Context()); err != nil || l.Holder != contender().Identity {
		t.Errorf("got %+v, %v", l, err)
	}
}

func TestOpensMySQLWithoutConnecting(t *testing.T) {
	t.Parallel()
	b, err := backends.Open("mysql://u:"+secret+"@127.0.0.1:1/app?hints=off", contender(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if _, ok := b.(*mysql.Backend); !ok {
		t.Errorf("got a %T", b)
	}
	none, err := backends.Open("mysql://u:"+secret+"@127.0.0.1:1/app?nonsense=1", contender(), nil)
	if err == nil || none != nil || !strings.Contains(err.Error(), "nonsense") || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v, %v", none, err)
	}
}

func TestReportsWhatIsWrongWithTheDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "absent", "leaf")
	b, err := backends.Open("local:"+dir, contender(), nil)
	if err == nil || !strings.Contains(err.Error(), filepath.Dir(dir)+" does not exist") {
		t.Errorf("got %v", err)
	}
	if b != nil {
		t.Errorf("got the backend %v beside an error", b)
	}
}

// secret is what no error may show any part of; its parts are what stands between reserved characters.
const secret = "4711"

func TestRefusedURLsSayWhatToWriteAndHideThePassword(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":                                     "use one of local:/directory, mysql://",
		" ":                                    "use one of",
		"nonsense":                             "no scheme",
		"/var/lib/simba":                       "write local:/var/lib/simba",
		"local:":                               "write local:/directory",
		"local:/":                              "write local:/directory",
		"local:relative/dir":                   "write local:/relative/dir",
		"local://var/lib":                      "write local:/var/lib",
		"local:///var/lib":                     "write local:/var/lib",
		"local:////var/lib":                    "write local:/var/lib",
		"local://user@var/lib":                 "takes no user",
		"local:/dir?hints=off":                 "no parameters",
		"local:/dir?":                          "no parameters",
		"local:/dir#1":                         "no parameters",
		"local:/100%":                          "write % as %25",
		"file:/var/lib":                        "write local:/directory",
		"mariadb://u@db/app":                   "write mysql://",
		"redis://db":                           "redis is not in this version",
		"postgresql://u:" + secret + "@db/app": "postgresql is not in this version",
		"kubernetes:":                          "kubernetes is not in this version",
		"etcd://h":                             "unknown scheme: use one of local:/directory, mysql://",
		secret + ":u@tcp(db:3306)/app":         "unknown scheme",
		"u:" + secret + "@tcp(db:3306)/app":    "unknown scheme",
		"mysql:db":                             "names no host",
		"mysql:///app":                         "names no host",
		"mysql://u:" + secret + "/1@db/app":    "write @ as %40",
		"mysql://u:" + secret + "#1@db/app":    "write @ as %40",
		"mysql://u:" + secret + "?1@db/app":    "write @ as %40",
		"mysql://u:" + secret + "%@db/app":     "write @ as %40",
		"mysql://u:x" + secret + "/@db/app":    "write @ as %40",
		"mysql://u:" + secret + "\n@db/app":    "write @ as %40",
		"mysql://u:" + secret + "@db:x/app":    "write @ as %40",
		"mysql:u:" + secret + "@db/app":        "write @ as %40",
	} {
		_, opened := backends.Open(raw, contender(), nil)
		_, located := backends.Location(raw)
		_, schemed := backends.Scheme(raw)
		for _, err := range []error{opened, located, schemed} {
			switch {
			case err == nil:
				t.Errorf("%q was accepted", raw)
			case !strings.Contains(err.Error(), want):
				t.Errorf("%q: got %q, want %q in it", raw, err, want)
			case strings.Contains(err.Error(), secret):
				t.Errorf("%q: %q shows the password", raw, err)
			}
		}
	}
}

func TestLocationIsEqualForEqualStoresAndHasNoCredentials(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"local:/var/lib/simba":                        "local:/var/lib/simba",
		"LOCAL:/var//lib/x/../simba/":                 "local:/var/lib/simba",
		"local:/a%20b":                                "local:/a%20b",
		"mysql://db/app":                              "mysql://db:3306/app",
		"mysql://u:" + secret + "@DB:3306/app":        "mysql://db:3306/app",
		"mysql://" + secret + "@db:/app?hints=off":    "mysql://db:3306/app",
		"mysql://u:p%40" + secret + "@[::1]/App":      "mysql://[::1]:3306/App",
		"mysql://u@db:3307/app?hints=off&table=other": "mysql://db:3307/app?table=other",
		"mysql://u@db/app?table=simba_mutex":          "mysql://db:3306/app",
	} {
		got, err := backends.Location(raw)
		if err != nil {
			t.Errorf("%q: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", raw, diff)
		}
	}
}
