package testserver

// Pair is a certificate and its key, as PEM files.
type Pair struct {
	CertFile, KeyFile string
}
