package testserver

// Ended is closed when the server's process has ended, on whoever's order.
func (s *Server) Ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.done
}
