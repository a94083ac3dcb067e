package mysql

import (
	"strings"
	"testing"
)

// collide opens two mutexes on a table whose column has that character set and collation.
func collide(t *testing.T, first, second, charset, collation string) {
	t.Helper()
	onEach(t, func(t *testing.T, s *store) {
		s.exec(t, jvmTable("varchar(128)", jvmToken, "engine = InnoDB default charset = "+charset+" collate = "+collation))
		one, two := contender("a"), contender("b")
		one.Mutex, two.Mutex = first, second
		a, b := open(t, s.location(), one, nil), open(t, s.location(), two, nil)
		lease := wins(t, a, "a")
		s.exec(t, "update simba_mutex set transition_at = 1 where mutex = ?", first) // B would get it, were it the same
		_, err := b.Observe(t.Context())
		if err == nil {
			_, err = b.Acquire(t.Context())
		}
		wantError(t, err, second, "collation", "utf8mb4_bin")
		_, err = b.Acquire(t.Context())
		wantError(t, err, second, "collation")
		if token := s.number(t, "select max(fencing_token) from simba_mutex"); uint64(token) != lease.Token {
			t.Errorf("token %d was changed to %d", lease.Token, token)
		}
		if n := s.number(t, "select count(*) from simba_mutex"); n != 1 {
			t.Errorf("%d rows, want 1: a name was stored in another spelling", n)
		}
	})
}

func TestRefusesNamesThatTheCollationEquates(t *testing.T) {
	for name, names := range map[string][2]string{
		"Case":   {"orders", "Orders"},
		"Space":  {"orders", "Orders "},
		"Accent": {"cafe", "café"},
	} {
		t.Run(name, func(t *testing.T) { collide(t, names[0], names[1], "utf8mb4", "utf8mb4_unicode_ci") })
	}
}

func TestRefusesNamesThatTheCharacterSetCannotHold(t *testing.T) {
	collide(t, "??", "日本", "latin1", "latin1_swedish_ci")
}

func TestKeepsNamesApart(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		for _, name := range []string{"orders", "Orders", "örders", "日本", "中国", "??", `it's "a" \ %_/?`, "`", " x", strings.Repeat("名", 66)} {
			c := contender("a")
			c.Mutex = name
			b := open(t, s.location(), c, nil)
			lease := wins(t, b, "a")
			c.Identity = "b"
			if got := observe(t, open(t, s.location(), c, nil)); got.Holder != "a" || got.Token != lease.Token {
				t.Errorf("%q: %+v", name, got)
			}
		}
	})
}

func TestWorksInALatin1Database(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		s.exec(t, "alter database "+s.database+" character set latin1")
		s.exec(t, jvmTable("char(32)", jvmToken, "engine = InnoDB"))
		for _, identity := range []string{"a", "élan", `q'"\`} {
			b := s.open(t, identity)
			lease := wins(t, b, identity)
			if got := renew(t, b, lease.Token); got.Holder != identity {
				t.Errorf("renew: %+v", got)
			}
			release(t, b, lease.Token)
			if got := observe(t, b); got.Holder != "" {
				t.Errorf("after release: %+v", got)
			}
		}
		_, err := s.open(t, "日本").Acquire(t.Context())
		wantError(t, err, "owner_id")
	})
}

func TestTellsIdentitiesApartThatTheCollationEquates(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		s.exec(t, jvmTable("varchar(128)", jvmToken, "engine = InnoDB default charset = utf8mb4 collate = utf8mb4_unicode_ci"))
		lease := wins(t, s.open(t, "pod"), "pod")
		for _, other := range []string{"Pod", "pod ", "pöd"} {
			b := s.open(t, other)
			release(t, b, 0)
			release(t, b, lease.Token)
			if got := renew(t, b, lease.Token); got.Holder != "pod" {
				t.Errorf("%q renewed the term of %q: %+v", other, "pod", got)
			}
			if got := acquire(t, b); got.Holder != "pod" {
				t.Errorf("%q acquired: %+v", other, got)
			}
		}
	})
}
