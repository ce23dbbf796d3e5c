package tracing

// Held returns how many sagas the tracer has a state of.
func (t *Tracer) Held() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.states)
}
