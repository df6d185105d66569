package accesslog

import "bytes"

// The parts of a JSON line that are gathered: the fields, and two more.
const (
	timePart = FieldCount + iota
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
	parts [partCount]value
	ranks [partCount]uint8
	cost  string // the member that says what the line is worth; empty for none
}

// parseJSON reads a line that is one JSON object.
func (l *Line) parseJSON(b []byte) Fault {
	s := scanner{rest: b}
	s.space()
	d := draft{cost: l.costField}
	ok := d.gather(&s, 0, meaning)
	s.space()
	if !ok || len(s.rest) > 0 {
		return NoObject
	}
	d.cost = "" // what clients send is below, and must not be it
	if v := d.parts[requestPart]; v.kind == object {
		d.gather(&scanner{rest: v.text}, 0, meaning)
	}
	if v := d.parts[headersPart]; v.kind == object {
		d.gather(&scanner{rest: v.text}, 0, headerMeaning)
	}
	return d.fill(l)
}

// gather takes an object, depth levels down, and takes up its members by what
// their names mean. It is false when the object is not well-formed; the draft is
// then of no use.
func (d *draft) gather(s *scanner, depth int, meaning func(name []byte) (part int, rank uint8)) bool {
	return s.members(depth, func(name []byte, v value) {
		if v.kind == array {
			v = first(v.text)
		}
		if d.cost != "" && v.scalar() && d.isCost(name) {
			d.parts[costPart] = v
		}
		part, rank := meaning(name)
		if rank > 0 && v.kind != nothing && (d.ranks[part] == 0 || rank <= d.ranks[part]) {
			d.parts[part], d.ranks[part] = v, rank
		}
	})
}

// first is the first element of an array that is known to be well-formed:
// Caddy writes each header as an array.
func first(array []byte) value {
	s := scanner{rest: array[1:]}
	s.space()
	if s.rest[0] == ']' {
		return value{}
	}
	v, _ := s.value(0)
	return v
}

// meaning is the part that a member of that name stands for, and its rank from
// 1 among the members that stand for it; a rank of 0 means none.
func meaning(name []byte) (part int, rank uint8) {
	switch string(name) {
	case "remote_addr":
		return int(RemoteAddress), 1
	case "remote_address":
		return int(RemoteAddress), 2
	case "client_ip":
		return int(RemoteAddress), 3
	case "remote_ip":
		return int(RemoteAddress), 4
	case "ip":
		return int(RemoteAddress), 5
	case "downstream_remote_address":
		return int(RemoteAddress), 6
	case "method":
		return int(Method), 1
	case "request_method":
		return int(Method), 2
	case "host":
		return int(Host), 1
	case "http_host":
		return int(Host), 2
	case "authority", ":authority":
		return int(Host), 3
	case "server_name":
		return int(Host), 4
	case "user":
		return int(User), 1
	case "remote_user":
		return int(User), 2
	case "user_id":
		return int(User), 3
	case "status":
		return int(Status), 1
	case "response_code":
		return int(Status), 2
	case "user_agent":
		return int(UserAgent), 1
	case "http_user_agent":
		return int(UserAgent), 2
	case "referer":
		return int(Referer), 1
	case "http_referer":
		return int(Referer), 2
	}
	return otherMeaning(name)
}

// otherMeaning is meaning for what is not a field by itself.
func otherMeaning(name []byte) (part int, rank uint8) {
	switch string(name) {
	case "time":
		return timePart, 1
	case "ts":
		return timePart, 2
	case "time_local":
		return timePart, 3
	case "time_iso8601":
		return timePart, 4
	case "timestamp":
		return timePart, 5
	case "start_time":
		return timePart, 6
	case "@timestamp":
		return timePart, 7
	case "msec":
		return timePart, 8
	case "path":
		return targetPart, 1
	case "request_uri":
		return targetPart, 2
	case "uri":
		return targetPart, 3
	case "request":
		return requestPart, 1
	case "headers":
		return headersPart, 1
	}
	return 0, 0
}

// headerMeaning is meaning for the headers that the client sent, which are not
// to be taken for anything else.
func headerMeaning(name []byte) (part int, rank uint8) {
	switch string(name) {
	case "User-Agent", "user-agent":
		return int(UserAgent), 3
	case "Referer", "referer":
		return int(Referer), 3
	}
	return 0, 0
}

// fill makes a line of the draft.
func (d *draft) fill(l *Line) Fault {
	for _, f := range [...]Field{Host, User, UserAgent, Referer} {
		if d.parts[f].scalar() {
			l.set(f, d.parts[f].decoded())
		}
	}
	when, from, status := d.parts[timePart], d.parts[RemoteAddress], d.parts[Status]
	if from.kind != text || !l.setAddress(from.decoded()) {
		return NoAddress
	}
	if !when.scalar() {
		return NoTime
	}
	var ok bool
	if l.Time, ok = l.stamps.parse(when.decoded()); !ok {
		return NoTime
	}
	if !d.fillRequest(l) {
		return NoRequest
	}
	if !status.scalar() || !l.setStatus(status.decoded()) {
		return NoStatus
	}
	l.costText = d.parts[costPart].text
	return Whole
}

// fillRequest makes the request of a whole request line, unless its parts are
// given by themselves.
func (d *draft) fillRequest(l *Line) bool {
	method, target, request := d.parts[Method], d.parts[targetPart], d.parts[requestPart]
	if request.kind == text && (method.kind != text || target.kind != text) {
		return l.setRequest(request.decoded())
	}
	return method.kind == text && target.kind == text &&
		l.setMethod(method.decoded()) && l.setTarget(bytes.TrimSpace(target.decoded()))
}
