package envoy

import (
	"fmt"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weir-limit/weir"
)

const (
	day   = 24 * time.Hour
	week  = 7 * day
	month = 30 * day
	year  = 365 * day
)

// override makes a limit of the one that a request brings along: a fixed window
// that is aligned to the Unix epoch.
func override(o *ratelimit.RateLimitDescriptor_RateLimitOverride) (*weir.Limit, error) {
	period, ok := overridePeriod(o.GetUnit())
	if !ok {
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

func overridePeriod(u envoytype.RateLimitUnit) (time.Duration, bool) {
	switch u {
	case envoytype.RateLimitUnit_SECOND:
		return time.Second, true
	case envoytype.RateLimitUnit_MINUTE:
		return time.Minute, true
	case envoytype.RateLimitUnit_HOUR:
		return time.Hour, true
	case envoytype.RateLimitUnit_DAY:
		return day, true
	case envoytype.RateLimitUnit_MONTH:
		return month, true
	case envoytype.RateLimitUnit_YEAR:
		return year, true
	case envoytype.RateLimitUnit_UNKNOWN:
	}
	return 0, false
}

// unitOf is the unit that the period of a limit is exactly one of. Civil months
// and years have the period of nominal ones.
func unitOf(s *weir.Spec) rls.RateLimitResponse_RateLimit_Unit {
	switch s.Period {
	case time.Second:
		return rls.RateLimitResponse_RateLimit_SECOND
	case time.Minute:
		return rls.RateLimitResponse_RateLimit_MINUTE
	case time.Hour:
		return rls.RateLimitResponse_RateLimit_HOUR
	case day:
		return rls.RateLimitResponse_RateLimit_DAY
	case week:
		return rls.RateLimitResponse_RateLimit_WEEK
	case month:
		return rls.RateLimitResponse_RateLimit_MONTH
	case year:
		return rls.RateLimitResponse_RateLimit_YEAR
	}
	return rls.RateLimitResponse_RateLimit_UNKNOWN
}
