//go:build tools

// Package h2spec names the program that scripts/setup.sh builds. go.mod has the versions that the Go of Debian 12 compiles.
package h2spec

import _ "github.com/summerwind/h2spec/cmd/h2spec"
