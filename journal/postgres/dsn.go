package postgres

import (
	"net/url"
	"strings"
)

// dsnForMigrations drops the pool's options, which only pgxpool knows.
func dsnForMigrations(dsn string) string {
	if u, err := url.Parse(dsn); err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") {
		q := u.Query()
		for k := range q {
			if strings.HasPrefix(k, "pool_") {
				q.Del(k)
			}
		}
		u.RawQuery = q.Encode()
		return u.String()
	}
	var keep []string
	for _, pair := range strings.Fields(dsn) {
		if !strings.HasPrefix(pair, "pool_") {
			keep = append(keep, pair)
		}
	}
	return strings.Join(keep, " ")
}
