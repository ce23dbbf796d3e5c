package main

import (
	"runtime"
	"runtime/debug"

	"recourse/internal/cli"
)

// release is the version of a release build, set by the linker: -X main.release=v1.2.3.
var release string

// version returns the release, or the build's source revision.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := info.Main.Version; v != "" && v != "(devel)" {
			return v
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return "devel-" + s.Value[:12]
			}
		}
	}
	return "devel"
}

type versionCmd struct{ cli.OutputFlag }

// Run prints the version.
func (c *versionCmd) Run(a *cli.App) error {
	if !c.Machine() {
		a.Printf("recourse %s (%s, %s/%s)\n", a.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}
	return a.Encode(map[string]string{"version": a.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
}
