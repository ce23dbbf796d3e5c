package main

import "github.com/alecthomas/kong"

// variables gives flags their values from the environment: those that the
// grammar names one for. kong would ask the process's own environment only.
func variables(env map[string]string) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		for _, name := range flag.Tag.Envs {
			if value, ok := env[name]; ok && value != "" {
				return value, nil
			}
		}
		return nil, nil
	})
}
