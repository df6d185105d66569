/*
 * One share of one key: a giver m, which is a member, and the owners that may have it, a, b and m itself, the rank of the key. Heartbeats of m
 * tell a and b how it stands to them; they are lost and delayed. docs/decisions/0023 and 0085; the numbers I7 ... I14 are of
 * docs/cluster-protocol.md, and the rules of internal/cluster/member (peers.go: see, lends, stand; place.go: follows, turn, unbroken)
 * and internal/cluster/ledger/entitle.go.
 *
 * Time is in ticks, and all timers count down, so that the states are finite. The giver hears an owner when it likes, so links that
 * are cut in one direction and members that are borne with (Flap) are here. One heartbeat is on each link: one that is overtaken does nothing.
 *
 * Without BUCKET, the model has that no two owners use the share at a time, and the giver may crash and start again (I14). It has no bound on how
 * often anything happens. With BUCKET, owners a and b with a share of their own each pass events on it, and an auditor looks at the sum (I1, I9, I10). All
 * buckets may be full again at any time, as if nobody had asked for long. RUNS bounds how often the giver begins anew with each owner. With OWN, the owners are b
 * and m, and a uses the share of its own.
 *
 * What is not here: leases (leases.pml), handoffs and backups, joins and leaves, I11, I17, and I21 (so the order in View.follows drops out). The share of b
 * goes the same way as that of m, and stays with b.
 *
 * An owner that m was not settled with is not told to be kept (stands; peers.go: unsettled). Without that rule two may use the share: mutant KEPT.
 *
 * Mutants, which spin must catch: NO_SETTLE, EARLY and NO_MARGIN (I7), LONG_SILENCE (I8), STARTS (I14); with BUCKET: FULL (I9), NO_CHARGE,
 * TURN and KEPT (I10).
 */
#ifdef BUCKET
#define SILENCE 1 /* no leases: events pass at once */
#define LIFE 0
#define MARGIN 0
#ifndef RUNS
#define RUNS 1
#endif
#define EVENT 2  /* so that all parts of the bucket are whole */
#define BURST 3
#else
#define SILENCE 2
#define LIFE 1
#define MARGIN 1
#endif
#ifdef NO_MARGIN
#define SETTLE (SILENCE + LIFE)
#else
#define SETTLE (SILENCE + LIFE + MARGIN)
#endif

#ifdef OWN
#define USED 1
#else
#define USED 0
#endif
/* what the heartbeats say to an owner, by View.follows */
#define NOT 0
#define KEPT_ONLY 1 /* it has the share still, and may not count on it */
#define FOLLOWS 2

#define A 0
#define B 1
#define M 2

typedef Giver {
	bit may, left; /* since != 0; left != 0 */
	unsigned rests : 3, relied : 3, vote : 2;
#ifdef BUCKET
	unsigned runs : 2
#endif
};
typedef Heartbeat {
	unsigned stands : 2, vote : 2;
#ifdef BUCKET
	unsigned runs : 2, turn : 2
#endif
};
#ifdef BUCKET
typedef Ledger {
	unsigned level : 3;
	bit voter;
	unsigned runs : 2, turn : 3
};
Ledger ledger[3];
unsigned passed : 3;
#endif

Giver to[2];
Heartbeat way[2], heard[2];
bit flies[2];
#ifndef BUCKET
byte used[3];
#endif
#ifdef BUCKET
#define fewer(x) (to[x].runs < RUNS)
#define count(x) to[x].runs++
#else
#define fewer(x) 1
#define count(x) skip
#endif
#ifndef BUCKET
unsigned boots : 3;
bit votes = 1;
#else
#define votes 1
#endif

#ifdef EARLY
#define settled(x) 1
#else
#define settled(x) (to[x].rests == 0) /* I7: one after it may count on the share still */
#endif
#ifdef NO_SETTLE
#define over(x) 1
#else
#define over(x) (to[x].relied == 0) /* I7: it was lent the share a settle ago */
#endif

#ifdef KEPT
#define stands(x) (!to[x].may -> NOT : (to[x].left -> KEPT_ONLY : (settled(x) -> FOLLOWS : NOT)))
#else
#define stands(x) (!to[x].may -> NOT : (!settled(x) -> NOT : (to[x].left -> KEPT_ONLY : FOLLOWS)))
#endif
#define own (votes && !to[A].may && !to[B].may)
#define counts(x) (heard[x].stands == FOLLOWS && heard[x].vote > 0)
#define down(n) n = (n > 0 -> n - 1 : 0)

inline out(x) {
	to[x].may = 0; to[x].left = 0; to[x].rests = 0; to[x].relied = 0
}

inline uses() {
#ifndef BUCKET
	used[A] = (counts(A) -> LIFE + MARGIN : used[A]);
	used[B] = (counts(B) -> LIFE + MARGIN : used[B]);
	used[M] = (own -> LIFE + MARGIN : used[M]);
	assert((used[A] > 0) + (used[B] > 0) + (used[M] > 0) <= 1)
#else
	skip
#endif
}

#ifdef BUCKET
#ifdef TURN
#define grown(was, is) 0
#else
#define grown(was, is) (is > was) /* I10: an earlier one in the rank had it */
#endif
inline look(x, is, its, turned, others) {
	has = is + others; had = others;
	if
	:: is && ledger[x].voter && its == ledger[x].runs && !grown(ledger[x].turn, turned) -> had++
	:: else
	fi;
	ledger[x].voter = is;
	ledger[x].runs = (is -> its : 0);
	ledger[x].turn = (is -> turned : 0);
#ifndef NO_CHARGE
	if
	:: had < has -> ledger[x].level = ledger[x].level * had / has
	:: else
	fi;
#endif
	has = 0; had = 0
}
inline pass(x, n) {
	k = n;
	if
#ifdef FULL
	:: k > 0 && ledger[x].level >= EVENT -> ledger[x].level = ledger[x].level - EVENT; passed++
#else
	:: k > 0 && ledger[x].level * k >= EVENT * BURST -> ledger[x].level = ledger[x].level - EVENT * BURST / k; passed++
#endif
	:: else
	fi;
	k = 0;
	assert(passed <= BURST)
}
#define turn_m (to[A].runs + to[B].runs)
#define look_a look(A, (heard[A].stands != NOT), heard[A].runs, 0, 1)
#define look_b look(B, (heard[B].stands != NOT), heard[B].runs, heard[B].turn, 1)
#define look_m look(M, own, 0, turn_m, 0)
#endif

/* the giver hears an owner that it lends the share */
inline lend(x) {
	d_step { votes && to[x].may && !to[x].left -> to[x].vote = SILENCE; to[x].relied = SETTLE; uses() }
}
/* it hears one again that it was about to let go */
inline again(x) {
	d_step { votes && to[x].may && to[x].left -> to[x].left = 0; uses() }
}
/* it hears one again that it has let go */
inline begin(x) {
	d_step { votes && !to[x].may && fewer(x) -> count(x);
		to[x].may = 1; to[x].rests = SETTLE; uses() }
}
/* it hears one no longer */
inline silent(x) {
	d_step { to[x].may && !to[x].left -> to[x].left = 1; if :: over(x) -> out(x) :: else fi; uses() }
}
/* and lets it go */
inline gone(x) {
	d_step { to[x].may && to[x].left && over(x) -> out(x); uses() }
}
/* it sends a heartbeat. One that is on its way still is lost. b has the share where a is out: View.follows */
inline beat(x) {
	d_step { 1 -> flies[x] = 1;
		if
		:: votes && (x == A || !to[A].may) -> way[x].stands = stands(x); way[x].vote = to[x].vote;
#ifdef BUCKET
			way[x].runs = to[x].runs; way[x].turn = (x == B -> to[A].runs : 0)
#endif
		:: else -> way[x].stands = NOT
		fi;
		if
		:: way[x].stands == NOT -> way[x].vote = 0;
#ifdef BUCKET
			way[x].runs = 0; way[x].turn = 0
#endif
		:: else
		fi
	   }
}
/* a heartbeat arrives */
inline arrive(x) {
	d_step { flies[x] -> flies[x] = 0; heard[x].stands = way[x].stands;
#ifdef LONG_SILENCE
		heard[x].vote = SILENCE;
#else
		heard[x].vote = way[x].vote; /* I8: from its own stamp */
#endif
		way[x].stands = 0; way[x].vote = 0;
#ifdef BUCKET
		heard[x].runs = way[x].runs; heard[x].turn = way[x].turn; way[x].runs = 0; way[x].turn = 0;
#endif
		uses()
	   }
}
active proctype world() {
	byte has, had, k;
	d_step {
		to[A].may = 1; to[A].vote = SILENCE; to[A].relied = SETTLE;
		to[B].may = 1; to[B].vote = SILENCE; to[B].relied = SETTLE;
		heard[A].stands = FOLLOWS; heard[A].vote = SILENCE;
#ifdef BUCKET
		ledger[A].voter = 1; passed = USED;
		ledger[A].level = BURST * EVENT; ledger[B].level = BURST * EVENT; ledger[M].level = BURST * EVENT;
#endif
		uses()
	}
end:	do
	:: lend(A)
	:: lend(B)
	:: again(A)
	:: again(B)
	:: begin(A)
	:: begin(B)
	:: silent(A)
	:: silent(B)
	:: gone(A)
	:: gone(B)
	:: beat(A)
	:: beat(B)
	:: arrive(A)
	:: arrive(B)
	:: d_step { 1 ->
#ifndef BUCKET
		used[A] = (used[A] > 0 && !counts(A) -> used[A] - 1 : used[A]);
		used[B] = (used[B] > 0 && !counts(B) -> used[B] - 1 : used[B]);
		used[M] = (used[M] > 0 && !own -> used[M] - 1 : used[M]);
#endif
		down(to[A].rests); down(to[A].relied); down(to[A].vote); down(way[A].vote); down(heard[A].vote);
		down(to[B].rests); down(to[B].relied); down(to[B].vote); down(way[B].vote); down(heard[B].vote);
#ifndef BUCKET
		down(boots);
#endif
		uses()
	   }
#ifndef BUCKET
	:: d_step { votes -> votes = 0; out(A); out(B); to[A].vote = 0; to[B].vote = 0;
#ifndef STARTS
		boots = SETTLE; /* I14 */
#endif
		uses() }
	:: d_step { !votes && boots == 0 -> votes = 1; to[A].may = 1; uses() }
	:: d_step { !votes && boots == 0 -> votes = 1; to[B].may = 1; uses() }
	:: d_step { !votes && boots == 0 -> votes = 1; to[A].may = 1; to[B].may = 1; uses() }
	:: d_step { !votes && boots == 0 -> votes = 1; uses() }
#endif
#ifdef BUCKET
	:: d_step { 1 -> ledger[A].level = BURST * EVENT; ledger[B].level = BURST * EVENT; ledger[M].level = BURST * EVENT; passed = USED }
#ifndef OWN
	:: d_step { 1 -> look_a }
	:: d_step { 1 -> look_b }
	:: d_step { 1 -> look_a; pass(A, 1 + counts(A)) }
	:: d_step { 1 -> look_b; pass(B, 1 + counts(B)) }
#else
	:: d_step { 1 -> look_b }
	:: d_step { 1 -> look_b; pass(B, 1 + counts(B)) }
	:: d_step { 1 -> look_m }
	:: d_step { 1 -> look_m; pass(M, own) }
#endif
#endif
	od
}
