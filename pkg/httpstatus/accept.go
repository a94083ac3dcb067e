package httpstatus

import (
	"mime"
	"strconv"
	"strings"
)

// wantsText reports whether a request's Accept headers prefer text/plain to JSON. Only a header that
// names text/plain does: what accepts anything, or nothing in particular, gets JSON. Of equals the one
// named first wins, as clients list their favourite first.
func wantsText(accept []string) bool {
	text, best := false, 0.0
	for _, header := range accept {
		for part := range strings.SplitSeq(header, ",") {
			kind, params, err := mime.ParseMediaType(part)
			if err != nil || kind != "text/plain" && kind != "application/json" {
				continue
			}
			q := 1.0
			if s, ok := params["q"]; ok {
				if q, err = strconv.ParseFloat(s, 64); err != nil {
					continue
				}
			}
			if q > best {
				text, best = kind == "text/plain", q
			}
		}
	}
	return text
}
