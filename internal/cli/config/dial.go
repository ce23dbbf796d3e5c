package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"recourse/internal/cli"
	"recourse/internal/egress"
)

// DialFlags configure outgoing connections of steps, models and sinks.
type DialFlags struct {
	CAFile  string   `name:"ca-file" env:"RECOURSE_CA_FILE" placeholder:"FILE" help:"Certificates (PEM) of additional authorities to trust."`
	Resolve []string `env:"RECOURSE_RESOLVE" placeholder:"HOST:PORT=ADDRESS" help:"Connect to this address instead of a host and port, for tests; repeatable."`
}

// Apply adds the flags to the configuration of outgoing connections.
func (f DialFlags) Apply(c *egress.Config) error {
	var err error
	if c.Resolve, err = egress.ParseResolve(f.Resolve); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	if f.CAFile == "" {
		return nil
	}
	pem, err := os.ReadFile(f.CAFile)
	if err != nil {
		return cli.Exit(cli.Usage, fmt.Errorf("--ca-file: %w", err))
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return fmt.Errorf("the system's certificates: %w", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return cli.Exit(cli.Usage, fmt.Errorf("--ca-file %s has no certificate that can be read: put them there as PEM, each from -----BEGIN CERTIFICATE-----", f.CAFile))
	}
	c.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return nil
}
