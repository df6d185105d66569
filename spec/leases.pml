/*
 * Leases of one key: an owner, which also answers requests itself, and one lease holder, over a network
 * that loses, doubles and reorders. docs/decisions/0021; the numbers I2 … I6 are of docs/cluster-protocol.md.
 *
 * Time is in ticks, and all timers count down, so that the states are finite. What is not here: demand, turns,
 * several keys, shares (shares.pml).
 *
 * Mutants, which spin must catch: NO_OUTSTANDING (I6), CREDIT (I4), LONG_LIFE (I2), NO_MARGIN (I4),
 * ANY_ANSWER (I3), ADDS (I5).
 */
#ifndef ASKS
#define ASKS 2 /* of the lease holder */
#endif
#define BURST 2
#define REFILL 2 /* ticks for an event */
#define LIFE 2   /* of a lease */

#ifdef NO_MARGIN
#define MARGIN 0
#else
#define MARGIN 1 /* the lease holder's clock may lose a tick in a life */
#endif
#ifdef LONG_LIFE
#define USED (3 * LIFE)
#else
#define USED LIFE
#endif

mtype = { ask, grant, release };

/* kind, ask, lease, granted or spent, closed */
#ifndef FLIGHT
#define FLIGHT 2
#endif
chan net = [FLIGHT] of { mtype, byte, byte, byte, bit };

short ref = BURST;   /* a bucket that sees each event when it passes: the auditor of I1 */
byte phase;          /* ticks since the last event came */

/* the owner's ledger */
short level = BURST; /* what is left, of what was charged */
byte number;         /* of the last lease */
byte lease, granted, spent, held; /* its account of the lease holder; held counts down */
byte answered, a_lease, a_granted; /* its last answer */

/* the lease holder */
byte h_lease, h_granted, h_spent, h_life, h_ask, h_since;
byte h_told;         /* what the ask under way reports */
byte h_of;           /* and of which lease */
bit h_closed, asking, lost;

#define outstanding (granted - spent)

#ifdef NO_OUTSTANDING
#define room level
#else
#define room (level - outstanding) /* I6 */
#endif

inline pass() { /* I1 */
	assert(ref > 0);
	ref--
}

inline burn() { /* I4: what is unreported counts as passed */
#ifndef CREDIT
	level = level - outstanding;
#endif
	lease = 0; granted = 0; spent = 0; held = 0
}

inline report(l, n, closed) { /* I5: counts since the lease began */
	if
#ifdef ADDS
	:: l != 0 && l == lease && n > 0 && n + spent <= granted -> level = level - n; spent = spent + n
#else
	:: l != 0 && l == lease && n > spent -> level = level - (n - spent); spent = n
#endif
	:: else
	fi;
	if
	:: l != 0 && l == lease && closed -> lease = 0; granted = 0; spent = 0; held = 0
	:: else
	fi
}

inline send(kind, id, l, n, closed) { /* a network that is full loses it */
	if
	:: nfull(net) -> net!kind(id, l, n, closed)
	:: full(net)
	fi
}

inline hear() {
	if
	:: kind == ask ->
		report(l, n, c);
		if
		:: id < answered
		:: id == answered -> send(grant, id, a_lease, a_granted, 0)
		:: id > answered ->
			if
			:: lease != 0 && l != lease -> burn() /* which its holder does not know, or has let go */
			:: else
			fi;
			if
			:: room >= 1 ->
				if
				:: lease == 0 -> number++; lease = number
				:: else
				fi;
				granted++; held = LIFE + MARGIN
			:: else
			fi;
			answered = id; a_lease = lease; a_granted = granted;
			send(grant, id, a_lease, a_granted, 0)
		fi
	:: kind == release -> report(l, n, c)
	:: kind == grant ->
		if
#ifdef ANY_ANSWER
		:: l != 0 ->
#else
		:: asking && id == h_ask -> /* I3 */
#endif
			asking = 0;
			if
			:: l != h_lease -> h_lease = l; h_spent = 0; lost = 0
			:: else
			fi;
			h_granted = n;
			h_life = (h_since < USED -> USED - h_since : 0) /* I2: from when it sent the ask */
		:: else
		fi
	fi
}

inline tick() {
	if
	:: held > 0 -> held--;
		if
		:: held == 0 -> burn()
		:: else
		fi
	:: else
	fi;
	phase++;
	if
	:: phase == REFILL -> phase = 0;
		level = (level < BURST -> level + 1 : BURST);
		ref = (ref < BURST -> ref + 1 : BURST)
	:: else
	fi;
	if
	:: asking && h_since < 3 * LIFE -> h_since++
	:: else
	fi;
	if
	:: h_life > 0 -> h_life--
	:: h_life > 0 && !lost -> lost = 1 /* its clock is slow */
	:: else
	fi
}

inline forget() { kind = 0; id = 0; l = 0; n = 0; c = 0 } /* fewer states */

active proctype world() {
	mtype kind; byte id, l, n; bit c;
end:	do
	:: atomic { nempty(net) -> net?kind(id, l, n, c); hear(); forget() }
	:: atomic { nempty(net) -> net?kind(id, l, n, c); if :: nfull(net) -> net!kind(id, l, n, c) :: full(net) fi; hear(); forget() } /* twice */
	:: atomic { nempty(net) -> net?kind(id, l, n, c); forget() } /* lost */
	:: atomic { len(net) > 1 -> net?kind(id, l, n, c); net!kind(id, l, n, c); forget() } /* overtaken */
	:: atomic { room >= 1 -> level--; pass() } /* a request at the owner */
	:: atomic { h_life > 0 && h_granted > h_spent -> h_spent++; pass() } /* and at the lease holder: I2 */
	:: atomic { !asking && h_ask < ASKS -> /* it asks, and reports */
		h_ask++; asking = 1; h_since = 0;
		h_of = h_lease; h_told = h_spent; h_closed = (h_life == 0 -> 1 : 0);
		if
		:: h_closed -> h_lease = 0; h_granted = 0; h_spent = 0
		:: else
		fi;
		send(ask, h_ask, h_of, h_told, h_closed)
	   }
	:: atomic { asking -> send(ask, h_ask, h_of, h_told, h_closed) } /* again */
	:: atomic { asking && h_since >= LIFE -> asking = 0 } /* it gives up */
	:: atomic { !asking && h_lease != 0 -> /* it gives back */
		send(release, 0, h_lease, h_spent, 1);
		h_lease = 0; h_granted = 0; h_spent = 0; h_life = 0
	   }
	:: atomic { tick() }
	od
}
