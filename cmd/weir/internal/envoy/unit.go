package envoy

import (
	"fmt"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weir-limit/weir"
)

const day = 24 * time.Hour

// units are the periods of Envoy's units: those of limits that a request brings along, and those of
// answers. Civil months and years have the period of nominal ones.
var units = [...]struct {
	period time.Duration
	asked  envoytype.RateLimitUnit
	told   rls.RateLimitResponse_RateLimit_Unit
}{
	{time.Second, envoytype.RateLimitUnit_SECOND, rls.RateLimitResponse_RateLimit_SECOND},
	{time.Minute, envoytype.RateLimitUnit_MINUTE, rls.RateLimitResponse_RateLimit_MINUTE},
	{time.Hour, envoytype.RateLimitUnit_HOUR, rls.RateLimitResponse_RateLimit_HOUR},
	{day, envoytype.RateLimitUnit_DAY, rls.RateLimitResponse_RateLimit_DAY},
	{7 * day, envoytype.RateLimitUnit_UNKNOWN, rls.RateLimitResponse_RateLimit_WEEK}, // no request can ask for it
	{30 * day, envoytype.RateLimitUnit_MONTH, rls.RateLimitResponse_RateLimit_MONTH},
	{365 * day, envoytype.RateLimitUnit_YEAR, rls.RateLimitResponse_RateLimit_YEAR},
}

// override makes a limit of the one that a request brings along: a fixed window
// that is aligned to the Unix epoch.
func override(o *ratelimit.RateLimitDescriptor_RateLimitOverride) (*weir.Limit, error) {
	period := time.Duration(0)
	for _, u := range units {
		if u.asked == o.GetUnit() && u.asked != envoytype.RateLimitUnit_UNKNOWN {
			period = u.period
		}
	}
	if period == 0 {
		return nil, fmt.Errorf("unit: %v is none; send SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", o.GetUnit())
	}
	if m := o.GetUnitMultiplier(); m != nil {
		if m.GetValue() == 0 || m.GetValue() > uint32(weir.MaxPeriod/period) {
			return nil, fmt.Errorf("unit_multiplier: it is %d; it must be 1…%d for this unit", m.GetValue(), weir.MaxPeriod/period)
		}
		period *= time.Duration(m.GetValue())
	}
	return weir.Spec{
		Count: int64(o.GetRequestsPerUnit()), Period: period, Algorithm: weir.FixedWindow,
	}.Limit()
}

// UnitName is the name of the unit that the period of a limit is exactly one of, else UNKNOWN.
func UnitName(l *weir.Limit) string {
	s := l.Spec()
	return unitOf(&s).String()
}

// unitOf is the unit that the period of a limit is exactly one of.
func unitOf(s *weir.Spec) rls.RateLimitResponse_RateLimit_Unit {
	for _, u := range units {
		if u.period == s.Period {
			return u.told
		}
	}
	return rls.RateLimitResponse_RateLimit_UNKNOWN
}
