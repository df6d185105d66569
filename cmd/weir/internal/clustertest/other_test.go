//go:build !linux

package clustertest

import "testing"

func TestFaults(t *testing.T) { t.Skip("it needs the network namespaces of Linux") }
