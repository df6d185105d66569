// Package natsstoretest holds natsstore to the contract of stores, at real servers. It is here and
// not in the module of natsstore, so that programs that import natsstore require no server.
package natsstoretest
