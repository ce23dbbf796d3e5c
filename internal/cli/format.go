package cli

import (
	"fmt"
	"time"
)

// Span formats a remaining time.
func Span(d time.Duration) string {
	switch {
	case d <= time.Minute:
		return fmt.Sprintf("%d s", (d+time.Second-1)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", (d+time.Minute-1)/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", (d+time.Hour-1)/time.Hour)
	}
	return fmt.Sprintf("%d days", (d+12*time.Hour)/(24*time.Hour))
}

// Count formats a number of things.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Clock formats a time for people.
func Clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// Age formats an age in at most four characters.
func Age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
