// Package guardtest holds the guard and the edge around real stores to what they
// promise while the stores are far, stopped, killed or damaged. It is tests only: both
// packages are in the library, which requires no client of Redis.
package guardtest
