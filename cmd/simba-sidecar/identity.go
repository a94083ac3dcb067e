package main

import (
	"cmp"
	"crypto/rand"
	"os"
	"strings"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

const identitySuffix = 8 // characters of 32 kinds, so 40 bits

// newIdentity returns `<name>_<8 of a-z0-9>`, new at every call, so that no configuration, such as a fixed
// name in a Deployment, can make two contenders equal.
func newIdentity(name string) string {
	return readable(name) + "_" + strings.ToLower(rand.Text()[:identitySuffix])
}

// defaultName returns what people call this process.
func defaultName(env environ) string {
	host, _ := os.Hostname() // without one there is still the random part
	return cmp.Or(env["POD_NAME"], host, "unnamed")
}

// readable makes name fit into every store: tables of any character set, the names in Redis messages, and
// the limit on identities.
func readable(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("._:-", r):
			return r
		}
		return '-'
	}, name)
	return name[:min(len(name), election.MaxIdentityLength-identitySuffix-1)]
}
