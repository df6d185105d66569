// Package guardtest holds the guard around real stores to what it promises while they
// are far, stopped, killed or damaged. It is tests only: package guard is in the
// library, which requires no client of Redis.
package guardtest
