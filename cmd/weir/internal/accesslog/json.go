package accesslog

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// The parts of a JSON line that are gathered: the fields, and more.
const (
	timePart = Field(FieldCount) + iota
	requestPart
	targetPart // the target by itself; the path is then read out of it
	headersPart
	costPart
	partCount
)

// draft holds the parts of a JSON line until the whole of it has been read.
// When several members of a line mean the same part, the one of the lowest rank
// says it; of equals the last does.
type draft struct {
	parts [partCount]jsontext.Value
	ranks [partCount]uint8
	cost  string // the member that says what the line is worth; empty for none
	in    *scanner
}

// parseJSON reads a line that is one JSON object.
func (l *Line) parseJSON(b []byte) Fault {
	d := draft{cost: l.costField, in: &l.scanner}
	if !d.gather(b, members) {
		return NoObject
	}
	d.cost = "" // what clients send is below, and must not be it
	if v := d.parts[requestPart]; v.Kind() == '{' {
		d.gather(v, members)
	}
	if v := d.parts[headersPart]; v.Kind() == '{' {
		d.gather(v, headers)
	}
	return d.fill(l)
}

// gather takes up the members of the object b by what their names mean. It is false
// when b is not one object; the draft is then of no use.
func (d *draft) gather(b []byte, meanings map[string]meaning) bool {
	d.in.begin(b)
	if t, err := d.in.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	for d.in.PeekKind() == '"' {
		name, v := d.in.value(), d.in.value()
		if v == nil {
			return false
		}
		d.take(name[1:len(name)-1], v, meanings)
	}
	if _, err := d.in.ReadToken(); err != nil {
		return false
	}
	_, err := d.in.ReadToken()
	return errors.Is(err, io.EOF)
}

// take takes up one member. It takes the first element of an array, for Caddy
// writes each header as an array.
func (d *draft) take(name []byte, v jsontext.Value, meanings map[string]meaning) {
	if v.Kind() == '[' {
		var in scanner
		in.begin(v)
		_, _ = in.ReadToken() // it was read before
		v = in.value()
	}
	if d.cost != "" && scalar(v) && d.isCost(name) {
		d.parts[costPart] = v
	}
	if m, ok := meanings[string(name)]; ok && says(v) && (d.ranks[m.part] == 0 || m.rank <= d.ranks[m.part]) {
		d.parts[m.part], d.ranks[m.part] = v, m.rank
	}
}

// scanner reads the values of a line. Names may come twice, and text may be no UTF-8.
type scanner struct {
	jsontext.Decoder
	line []byte
}

func (s *scanner) begin(line []byte) {
	s.Reset(bytes.NewBuffer(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	s.line = line
}

// value is the next value as it stands in the line; nil: there is none.
func (s *scanner) value() jsontext.Value {
	v, err := s.ReadValue()
	if err != nil {
		return nil
	}
	end := s.InputOffset()
	return s.line[end-int64(len(v)) : end]
}

func scalar(v jsontext.Value) bool { return v.Kind() == '"' || v.Kind() == '0' }

// says is whether a value says anything of a request: null, true and false do not.
func says(v jsontext.Value) bool { return scalar(v) || v.Kind() == '{' || v.Kind() == '[' }

// decoded is a text or number without quotes and escapes.
func decoded(v jsontext.Value) []byte {
	if v.Kind() != '"' {
		return v
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, v) // it was read before
	return text
}

// meaning is the part that a member stands for, and its rank from 1 among the members
// that stand for it.
type meaning struct {
	part Field
	rank uint8
}

// members are those of a line that mean something, by their names.
var members = map[string]meaning{
	"remote_addr":               {RemoteAddress, 1},
	"remote_address":            {RemoteAddress, 2},
	"client_ip":                 {RemoteAddress, 3},
	"remote_ip":                 {RemoteAddress, 4},
	"ip":                        {RemoteAddress, 5},
	"downstream_remote_address": {RemoteAddress, 6},
	"method":                    {Method, 1},
	"request_method":            {Method, 2},
	"host":                      {Host, 1},
	"http_host":                 {Host, 2},
	"authority":                 {Host, 3},
	":authority":                {Host, 3},
	"server_name":               {Host, 4},
	"user":                      {User, 1},
	"remote_user":               {User, 2},
	"user_id":                   {User, 3},
	"status":                    {Status, 1},
	"response_code":             {Status, 2},
	"user_agent":                {UserAgent, 1},
	"http_user_agent":           {UserAgent, 2},
	"referer":                   {Referer, 1},
	"http_referer":              {Referer, 2},
	"time":                      {timePart, 1},
	"ts":                        {timePart, 2},
	"time_local":                {timePart, 3},
	"time_iso8601":              {timePart, 4},
	"timestamp":                 {timePart, 5},
	"start_time":                {timePart, 6},
	"@timestamp":                {timePart, 7},
	"msec":                      {timePart, 8},
	"path":                      {targetPart, 1},
	"request_uri":               {targetPart, 2},
	"uri":                       {targetPart, 3},
	"request":                   {requestPart, 1},
	"headers":                   {headersPart, 1},
}

// headers are those that the client sent, which are not to be taken for anything else.
var headers = map[string]meaning{
	"User-Agent": {UserAgent, 3},
	"user-agent": {UserAgent, 3},
	"Referer":    {Referer, 3},
	"referer":    {Referer, 3},
}

// fill makes a line of the draft.
func (d *draft) fill(l *Line) Fault {
	for _, f := range [...]Field{Host, User, UserAgent, Referer} {
		if scalar(d.parts[f]) {
			l.set(f, decoded(d.parts[f]))
		}
	}
	when, from, status := d.parts[timePart], d.parts[RemoteAddress], d.parts[Status]
	if from.Kind() != '"' || !l.setAddress(decoded(from)) {
		return NoAddress
	}
	if !scalar(when) {
		return NoTime
	}
	var ok bool
	if l.Time, ok = l.stamps.parse(decoded(when)); !ok {
		return NoTime
	}
	if !d.fillRequest(l) {
		return NoRequest
	}
	if !scalar(status) || !l.setStatus(decoded(status)) {
		return NoStatus
	}
	l.costText = decoded(d.parts[costPart])
	return Whole
}

// fillRequest makes the request of a whole request line, unless its parts are
// given by themselves.
func (d *draft) fillRequest(l *Line) bool {
	method, target, request := d.parts[Method], d.parts[targetPart], d.parts[requestPart]
	if request.Kind() == '"' && (method.Kind() != '"' || target.Kind() != '"') {
		return l.setRequest(decoded(request))
	}
	return method.Kind() == '"' && target.Kind() == '"' &&
		l.setMethod(decoded(method)) && l.setTarget(bytes.TrimSpace(decoded(target)))
}
