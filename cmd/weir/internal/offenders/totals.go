package offenders

// Total is what a rule has passed and denied since it was opened.
type Total struct{ Passed, Denied int64 }

// Totals is those of the rules that fit, added up by what key makes of them.
func (b *Book) Totals(f Filter, key func(ID) string) map[string]Total {
	totals := map[string]Total{}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, t := range b.traffic {
		if !f.fits(id) {
			continue
		}
		k := key(id)
		sum := totals[k]
		sum.Passed += t.passed.Load()
		sum.Denied += t.denied.Load()
		totals[k] = sum
	}
	return totals
}
