package backendtest

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// mistakeVariable makes TestReference test a reference with that mistake.
const mistakeVariable = "SIMBA_TEST_MISTAKE"

func TestReference(t *testing.T) {
	mistake := os.Getenv(mistakeVariable)
	harness := func(r *reference) Harness {
		return Harness{
			Addr: r.addr(),
			Open: func(addr string, c election.Contender) (election.Backend, error) {
				b, err := openReference(addr, mistake, c)
				return watchedBackend{b}, err
			},
			OpenWithoutHints: func(addr string, c election.Contender) (election.Backend, error) {
				return openReference(addr, mistake, c)
			},
			Now:         func(context.Context) (time.Time, error) { return time.Now(), nil },
			DeleteMutex: r.deleteMutex,
			Lapses:      true,
		}
	}
	h := harness(startReference(t, mistake))
	own := func(disturb func(*reference, testing.TB)) func(testing.TB) (Harness, func(testing.TB)) {
		return func(t testing.TB) (Harness, func(testing.TB)) {
			r := startReference(t, mistake)
			return harness(r), func(t testing.TB) { disturb(r, t) }
		}
	}
	h.Restart = own((*reference).restart)
	h.LoseData = own((*reference).loseData)
	Run(t, h)
}

// mistakes maps what an author of a backend may get wrong to the test that shows it.
var mistakes = map[string]string{
	"a release ignores the token":               "Terms/StaleRelease",
	"a release ignores the owner":               "Terms/ForeignRelease",
	"a release needs a token":                   "Terms/ReleaseWithoutToken",
	"a release loses the token":                 "Tokens/GrowOverHolders",
	"a renewal ignores the token":               "Terms/StaleRenew",
	"a renewal ignores the owner":               "Expiry/NotBeforeTheGrantEnds",
	"a renewal revives an expired term":         "Expiry/ExpiredTermIsOver",
	"a renewal moves the expiry back":           "LateCalls/ShorterRenewal",
	"a renewal raises the token":                "Tokens/GrowOverHolders",
	"a refused renewal prolongs the term":       "Terms/StaleRenew",
	"adoption moves the expiry back":            "LateCalls/ShorterAdoption",
	"adoption raises the token":                 "Tokens/GrowOverHolders",
	"an own lease is not adopted":               "Terms/LostAcquire",
	"an own expired lease is adopted":           "Expiry/OwnExpiredLeaseIsANewTerm",
	"asking in vain prolongs a lease":           "Expiry/NotBeforeTheGrantEnds",
	"looking prolongs a lease":                  "Expiry/NotBeforeTheGrantEnds",
	"leases end early":                          "Expiry/NotBeforeTheGrantEnds",
	"the asker's lease counts":                  "Expiry/HoldersLeaseCounts",
	"a grant is computed from a read":           "Basics/GrantsAreFullLeases",
	"acquire reads before it writes":            "Basics/OnlyOneOfManyWins",
	"a new term has no new token":               "Tokens/GrowOverHolders",
	"tokens do not outlive the mutex":           "Tokens/OutliveTheMutex",
	"tokens do not outlive the data":            "Tokens/OutliveLossOfData",
	"a restart loses the leases":                "Tokens/OutliveRestart",
	"a released mutex has lapsed":               "Basics/ReleasedMutex",
	"mutexes that differ in case are one":       "Names/EqualButForCase",
	"identities that differ in case are one":    "Names/Identities",
	"spaces at the end of an identity are lost": "Names/Identities",
	"long names are cut":                        "Names/Mutexes",
	"open connects":                             "Faults/OpenConnectsToNothing",
	"calls ignore their context":                "Faults/Blackhole",
	"calls go on after close":                   "Faults/CloseEndsACall",
	"a connection is used again after an error": "Faults/Blackhole",
	"a broken connection means free":            "Faults/CutAnswers",
	"close releases the term":                   "Terms/CloseKeepsTheTerm",
	"close leaks a goroutine":                   "Close/LeavesNothingBehind",
	"close leaks the connection":                "Close/LeavesNothingBehind",
	"a watch does not say that it stands":       "Watch/NotifiesOnceItStands",
	"a watch does not notify after a release":   "Watch/HandOver",
	"a watch dies in silence":                   "Watch/HandOverAfterALongTerm",
	"a watch ignores its context":               "Watch/EndsWithItsContext",
	"a watch outlives its backend":              "Watch/EndsWithItsBackend",
	"a watch hides that it broke":               "Watch/BreaksWithItsConnection",
}

// TestSuiteCatchesMistakes runs, for each mistake, the one test that is to show it.
func TestSuiteCatchesMistakes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	var tests []test
	slots := make(chan struct{}, 12) // mostly they wait
	for mistake, catcher := range mistakes {
		tests = append(tests, test{mistake, func(t *testing.T) {
			slots <- struct{}{}
			defer func() { <-slots }()
			pattern := "^TestReference$/^" + strings.ReplaceAll(regexp.QuoteMeta(catcher), "/", "$/^") + "$"
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+pattern, "-test.short", "-test.v", "-test.timeout=20s")
			cmd.Env = append(os.Environ(), mistakeVariable+"="+mistake)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestReference/"+catcher) {
				t.Errorf("%s did not fail (%v):\n%s", catcher, err, out)
			}
		}})
	}
	together(t, tests)
}
