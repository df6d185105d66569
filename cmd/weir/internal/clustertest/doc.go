// Package clustertest holds clusters of weir as it is shipped, a process and a network
// namespace a node, to what they promise while networks and processes fail. It is
// tests only.
//
// A node's only way to the other nodes is a device whose packets the test itself carries: it delays
// them, loses them and cuts ways off, in each direction for itself. So nothing of the kernel is
// needed but namespaces and TUN devices, and nothing is left behind when the test is killed: both
// go with the process that opened them.
//
// namespace_linux_test.go and network_linux_test.go are a network that fails as it is
// told, load_linux_test.go asks and keeps a history, audit_test.go finds in it what was
// too much.
package clustertest
