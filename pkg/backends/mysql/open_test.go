package mysql

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func TestUnderstandsEveryPartOfTheURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]target{
		"mysql://app@db/shop": {user: "app", address: "db:3306", database: "shop", table: "simba_mutex", hints: true},
		"mysql://app:p%40ss%2Fw%3Ard@db.example.com:3307/shop?table=locks&hints=off": {
			user: "app", password: "p@ss/w:rd", address: "db.example.com:3307", database: "shop", table: "locks"},
		"mysql://a%40b@[2001:db8::1]:3306/my%20shop?hints=on": {
			user: "a@b", address: "[2001:db8::1]:3306", database: "my shop", table: "simba_mutex", hints: true},
		"mysql://app@[::1]/a%2Fb?table=x%60y": {user: "app", address: "[::1]:3306", database: "a/b", table: "x`y", hints: true},
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(u)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(target{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestReportsAllMistakesOfTheURLAtOnce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"mysql:db":                         {"the host is missing", "the user is missing", "the database is missing"},
		"mysql://:hidden@:70000/a/b?x=1#z": {"user", "host", "port 70000", "more than one database", `"x"`, "hints and table", `"#"`},
		"mysql://app:hidden@db/shop?tabel=hidden&hints=yes&table=&hints=off": {
			`unknown query parameter "tabel"`, `"hints" is given 2 times`, `hints="yes"`, "the table's name is empty"},
		"mysql://app@db/" + strings.Repeat("d", 65) + "?table=a%20": {"65 characters, the limit is 64", `"a "`},
		"mysql://app@db/shop?a=%zz":                                 {"not percent-encoded"},
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(u, contender("a"), nil)
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %q does not say %q", text, err, part)
			}
		}
		if strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: error %q shows a secret", text, err)
		}
	}
}

func TestOffersHintsUnlessTheyAreOff(t *testing.T) {
	t.Parallel()
	if _, ok := open(t, "mysql://app@db/shop", contender("a"), nil).(election.Watcher); !ok {
		t.Error("not a Watcher")
	}
	if _, ok := open(t, "mysql://app@db/shop?hints=off", contender("a"), nil).(election.Watcher); ok {
		t.Error("a Watcher although hints are off")
	}
}
