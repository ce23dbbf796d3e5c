package main

import "github.com/alecthomas/kong"

// variables sets flags from the environment variables that the grammar names. kong itself would
// read only the process's environment.
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
