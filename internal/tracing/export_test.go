package tracing

// Held is how many sagas the tracer knows something of.
func (t *Tracer) Held() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.states)
}
