// Package statusjson is the one JSON form of an election.State: what HTTP answers and status.json holds.
package statusjson

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// Body says what one contender knows. A field that is not known is absent.
type Body struct {
	Leader   bool            `json:"leader"`
	State    election.Status `json:"state"`
	Reason   string          `json:"reason,omitempty"`
	Mutex    string          `json:"mutex,omitempty"`
	Identity string          `json:"identity,omitempty"`
	// Holder, Name, Token and Since describe the holder as last observed; Name is the readable part of
	// its identity.
	Holder string `json:"holder,omitempty"`
	Name   string `json:"name,omitempty"`
	Token  uint64 `json:"token,omitempty"`
	Since  string `json:"since,omitempty"`
	// ExpiresAt is when leadership ends if nothing renews it; absent unless leading.
	ExpiresAt string `json:"expiresAt,omitempty"`
	Revision  uint64 `json:"revision"`
	Backend   string `json:"backend,omitempty"`
}

// Of returns what s says at this moment; backend names the kind of store, such as "mysql". All fields
// agree with each other: ExpiresAt is present exactly if Leader is true.
func Of(s election.State, backend string) Body {
	s = s.Current()
	expires := s.ExpiresAt()
	leader := s.Status == election.Leader && !expires.IsZero()
	if s.Status == election.Leader && !leader {
		s = s.Current() // the deadline passed between the two looks at the clock
	}
	b := Body{
		Leader: leader, State: s.Status, Reason: s.Reason,
		Mutex: s.Mutex, Identity: s.Identity,
		Holder: s.Holder, Name: s.Name(), Token: s.Token, Since: Time(s.Since),
		Revision: s.Revision, Backend: backend,
	}
	if leader {
		b.ExpiresAt = Time(expires)
	}
	return b
}

// Time formats t as RFC 3339 in UTC with milliseconds; the zero time is "".
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// Marshal returns v as one line of JSON. It leaves <, > and & as they are: the result is never part of
// an HTML page, and identities stay readable.
func Marshal(v any) ([]byte, error) {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return line.Bytes(), nil
}
