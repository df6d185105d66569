package record

// CountError is about one count: what the store holds there is none, or it can't
// grow. The store is there, and decides others.
type CountError struct{ Err error }

func (e *CountError) Error() string { return e.Err.Error() }

// Unwrap is what is wrong with the count.
func (e *CountError) Unwrap() error { return e.Err }

// AskError is about what was asked: the store never decides it, whether it is there
// or not.
type AskError struct{ Err error }

func (e *AskError) Error() string { return e.Err.Error() }

// Unwrap is what is wrong with the asks.
func (e *AskError) Unwrap() error { return e.Err }
