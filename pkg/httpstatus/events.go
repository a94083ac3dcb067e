package httpstatus

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/statusjson"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// heartbeat is how often an event stream says something, so that either side notices when the other is
// gone and nothing in between takes the connection for dead.
const heartbeat = 15 * time.Second

// events streams the state now and every change of it, as server-sent events. A client that is too far
// behind, or does not read, is cut off and finds the present state when it connects again.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	waiter, ok := h.hub.join()
	if !ok {
		refuse(w)
		return
	}
	defer h.hub.leave(waiter)
	t := stream{source: h.source, kind: h.kind, w: w, control: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for ok := t.tell(h.source.State()); ok; {
		over, stop := expiry(t.told)
		select {
		case <-over:
			ok = t.tell(h.source.State())
		case s, open := <-waiter.changes:
			ok = open && t.tell(s)
		case <-beat.C:
			ok = t.write([]byte(": alive\n\n"))
		case <-r.Context().Done():
			ok = false
		}
		stop()
	}
}

// stream is the writing side of an event stream.
type stream struct {
	source  Source
	kind    string
	w       http.ResponseWriter
	control *http.ResponseController
	told    election.State // zero at first
}

// tell writes s, unless the client knows better, and reports whether the client still reads.
func (t *stream) tell(s election.State) bool {
	now := t.source.State()
	switch {
	case s.Revision == now.Revision:
		s = now // renewed since, perhaps
	case s.Status == election.Leader:
		return true // over before it could be told; what ended it follows
	}
	if known := t.told.Status != ""; known && !newer(s, t.told) {
		if s.Revision == t.told.Revision {
			t.told = s
		}
		return true
	}
	t.told = s
	body := statusjson.Of(s, t.kind)
	text, err := statusjson.Marshal(body)
	if err != nil {
		return false
	}
	var event bytes.Buffer
	event.WriteString("event: state\nid: " + strconv.FormatUint(body.Revision, 10) + "\ndata: ")
	event.Write(text)
	event.WriteByte('\n')
	return t.write(event.Bytes())
}

// newer reports whether a is a change that came after b. Revisions count up, and wrap around at 2^53.
func newer(a, b election.State) bool {
	const revisions = 1 << 53
	ahead := (a.Revision - b.Revision) % revisions
	return ahead > 0 && ahead < revisions/2 || ahead == 0 && a.Status != b.Status
}

func (t *stream) write(text []byte) bool {
	_ = t.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := t.w.Write(text)
	return err == nil && t.control.Flush() == nil
}
