// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Congestion control that kernels do not ship, as struct_ops programs: HighSpeed (RFC 3649), Westwood+ and
// a NewReno with a settable initial ssthresh. They decide as crates/core/congestion does, segment by
// segment; a test compares the two.
//
// A section names what it is: struct_ops/CONTROLLER/MEMBER of struct tcp_congestion_ops. Kernel types are
// declared with the fields that are used; the loader finds where they are in the running kernel (CO-RE).
//
// Programs that call the kernel's own functions must declare a licence compatible with the GPL, which is
// why this one file is offered under both.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;

#define SEC(name) __attribute__((section(name), used))
#define KERNEL __attribute__((preserve_access_index))
#define CONTROLLER(controller, member) SEC("struct_ops/" #controller "/" #member)
#define ALWAYS_INLINE inline __attribute__((always_inline))

const char terms[] SEC("license") = "GPL";

// === What is used of the kernel ===

struct inet_connection_sock {
	u64 icsk_ca_priv[13];
} KERNEL;

struct tcp_sock {
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_ssthresh;
	u32 max_packets_out;
	u32 delivered;
	u64 tcp_mstamp;
	u8 is_cwnd_limited : 1;
} KERNEL;

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
} KERNEL;

// include/net/tcp.h
enum tcp_ca_event {
	CA_EVENT_TX_START = 0,
	CA_EVENT_LOSS = 3,
};

extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) SEC(".ksyms");
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked) SEC(".ksyms");
extern u32 tcp_reno_ssthresh(struct tcp_sock *sk) SEC(".ksyms");
extern void tcp_reno_cong_avoid(struct tcp_sock *sk, u32 ack, u32 acked) SEC(".ksyms");
extern u32 tcp_reno_undo_cwnd(struct tcp_sock *sk) SEC(".ksyms");

// RFC 5681 equation 4: never below two segments.
#define MIN_SSTHRESH 2

static ALWAYS_INLINE u32 at_least(u32 a, u32 b)
{
	return a > b ? a : b;
}

// A bit field lies where the kernel's compiler put it: loaded as the kernel's BTF says, then shifted.
static ALWAYS_INLINE int is_cwnd_limited(struct tcp_sock *tp)
{
	const void *place = (const void *)tp + __builtin_preserve_field_info(tp->is_cwnd_limited, 0);
	u64 bits;

	switch (__builtin_preserve_field_info(tp->is_cwnd_limited, 1)) {
	case 1:
		bits = *(const u8 *)place;
		break;
	case 2:
		bits = *(const u16 *)place;
		break;
	case 4:
		bits = *(const u32 *)place;
		break;
	default:
		bits = *(const u64 *)place;
	}
	bits <<= __builtin_preserve_field_info(tp->is_cwnd_limited, 4);
	bits >>= __builtin_preserve_field_info(tp->is_cwnd_limited, 5);
	return bits != 0;
}

// Whether the window held the sender back (tcp_is_cwnd_limited in include/net/tcp.h): in slow start also
// where it may grow to twice what was in flight.
static ALWAYS_INLINE int may_grow(struct tcp_sock *tp)
{
	if (is_cwnd_limited(tp))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

// === HighSpeed (RFC 3649) ===

// Appendix B: from which window a(w) = position + 1 applies, and b(w) there in 256ths; the table of
// crates/core/congestion, filled up to a power of two so that the verifier sees that no index leaves it.
struct high_speed_row {
	u32 cwnd;
	u32 decrease;
};

#define ROWS 73

static const struct high_speed_row high_speed_table[128] = {
	{ 38, 128 },	{ 118, 113 },	{ 221, 105 },	{ 347, 99 },	{ 495, 94 },
	{ 663, 90 },	{ 851, 87 },	{ 1058, 84 },	{ 1284, 81 },	{ 1529, 79 },
	{ 1793, 77 },	{ 2076, 75 },	{ 2378, 73 },	{ 2699, 71 },	{ 3039, 70 },
	{ 3399, 68 },	{ 3778, 67 },	{ 4177, 65 },	{ 4596, 64 },	{ 5036, 63 },
	{ 5497, 62 },	{ 5979, 61 },	{ 6483, 60 },	{ 7009, 59 },	{ 7558, 58 },
	{ 8130, 57 },	{ 8726, 56 },	{ 9346, 55 },	{ 9991, 54 },	{ 10661, 53 },
	{ 11358, 52 },	{ 12082, 51 },	{ 12834, 50 },	{ 13614, 50 },	{ 14424, 49 },
	{ 15265, 48 },	{ 16137, 47 },	{ 17042, 47 },	{ 17981, 46 },	{ 18955, 45 },
	{ 19965, 45 },	{ 21013, 44 },	{ 22101, 43 },	{ 23230, 43 },	{ 24402, 42 },
	{ 25618, 41 },	{ 26881, 41 },	{ 28193, 40 },	{ 29557, 39 },	{ 30975, 39 },
	{ 32450, 38 },	{ 33986, 37 },	{ 35586, 37 },	{ 37253, 36 },	{ 38992, 36 },
	{ 40808, 35 },	{ 42707, 34 },	{ 44694, 34 },	{ 46776, 33 },	{ 48961, 33 },
	{ 51258, 32 },	{ 53677, 31 },	{ 56230, 31 },	{ 58932, 30 },	{ 61799, 30 },
	{ 64851, 29 },	{ 68113, 28 },	{ 71617, 28 },	{ 75401, 27 },	{ 79517, 26 },
	{ 84035, 25 },	{ 89053, 25 },	{ 94717, 24 },
};

// The row for a window: the first whose window is not smaller, or the last. A binary search over 128 rows.
static ALWAYS_INLINE u32 high_speed_row(u32 cwnd)
{
	u32 row = 0;

#pragma unroll
	for (u32 step = 64; step > 0; step /= 2) {
		u32 next = row + step;

		if (next < ROWS && cwnd > high_speed_table[(next - 1) & 127].cwnd)
			row = next;
	}
	return row & 127;
}

CONTROLLER(highspeed, init) int high_speed_init(u64 *arguments)
{
	return 0;
}

CONTROLLER(highspeed, ssthresh) u32 high_speed_ssthresh(u64 *arguments)
{
	struct tcp_sock *tp = (void *)arguments[0];
	u32 cwnd = tp->snd_cwnd;
	u64 fall = (u64)cwnd * high_speed_table[high_speed_row(cwnd)].decrease >> 8;

	return at_least(cwnd - (u32)fall, MIN_SSTHRESH);
}

CONTROLLER(highspeed, cong_avoid) int high_speed_cong_avoid(u64 *arguments)
{
	struct tcp_sock *tp = (void *)arguments[0];
	u32 acked = (u32)arguments[2];

	if (!may_grow(tp))
		return 0;
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return 0;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked * (high_speed_row(tp->snd_cwnd) + 1));
	return 0;
}

CONTROLLER(highspeed, undo_cwnd) u32 high_speed_undo_cwnd(u64 *arguments)
{
	return tcp_reno_undo_cwnd((void *)arguments[0]);
}

// === Westwood+ (Grieco and Mascolo, CCR 34(2), 2004) ===

struct westwood {
	u64 counting_since_us;
	// Segments per 2^20 s, filtered once and twice.
	u64 rate_once;
	u64 rate;
	u32 delivered_before;
	u32 latest_rtt_us;
	// Zero before the first sample.
	u32 min_rtt_us;
};

// Deliveries are counted over one RTT, but at least this long.
#define MIN_COUNTING_US 50000
#define RATE_SHIFT 20
#define USEC_PER_SEC 1000000

static ALWAYS_INLINE struct westwood *westwood_of(struct tcp_sock *tp)
{
	return (struct westwood *)((struct inet_connection_sock *)tp)->icsk_ca_priv;
}

CONTROLLER(westwood, init) int westwood_init(u64 *arguments)
{
	struct tcp_sock *tp = (void *)arguments[0];
	struct westwood *west = westwood_of(tp);

	west->counting_since_us = 0;
	west->rate_once = 0;
	west->rate = 0;
	west->delivered_before = tp->delivered;
	west->latest_rtt_us = 0;
	west->min_rtt_us = 0;
	return 0;
}

CONTROLLER(westwood, pkts_acked) int westwood_pkts_acked(u64 *arguments)
{
	struct tcp_sock *tp = (void *)arguments[0];
	struct ack_sample *sample = (void *)arguments[1];
	struct westwood *west = westwood_of(tp);
	u64 now_us = tp->tcp_mstamp;
	u32 rtt_us, window_us;
	u64 span_us, counted, rate;

	if (sample->rtt_us > 0) {
		rtt_us = (u32)sample->rtt_us;
		west->latest_rtt_us = rtt_us;
		if (!west->min_rtt_us || rtt_us < west->min_rtt_us)
			west->min_rtt_us = rtt_us;
	}
	if (!west->counting_since_us) {
		west->counting_since_us = now_us;
		return 0;
	}
	span_us = now_us - west->counting_since_us;
	window_us = at_least(west->latest_rtt_us, MIN_COUNTING_US);
	if (span_us <= window_us)
		return 0;
	counted = tp->delivered - west->delivered_before;
	rate = (counted << RATE_SHIFT) * USEC_PER_SEC / span_us;
	if (west->rate) {
		// Two low-pass filters in a row, each keeping seven eighths (westwood_filter).
		west->rate_once = west->rate_once / 8 * 7 + rate / 8;
		west->rate = west->rate / 8 * 7 + west->rate_once / 8;
	} else {
		west->rate_once = rate;
		west->rate = rate;
	}
	west->delivered_before = tp->delivered;
	west->counting_since_us = now_us;
	return 0;
}

CONTROLLER(westwood, ssthresh) u32 westwood_ssthresh(u64 *arguments)
{
	struct westwood *west = westwood_of((void *)arguments[0]);
	// What the path delivers per smallest RTT. Shifted in two steps: 10^12 segments per 2^20 s over 10 s
	// stay below 2^64.
	u64 segments = ((west->rate >> 8) * west->min_rtt_us / USEC_PER_SEC) >> (RATE_SHIFT - 8);

	return at_least((u32)segments, MIN_SSTHRESH);
}

CONTROLLER(westwood, cwnd_event) int westwood_cwnd_event(u64 *arguments)
{
	struct tcp_sock *tp = (void *)arguments[0];
	struct westwood *west = westwood_of(tp);
	u32 event = (u32)arguments[1];

	if (event == CA_EVENT_TX_START && west->counting_since_us) {
		// Silence is not a low rate.
		west->counting_since_us = tp->tcp_mstamp;
		west->delivered_before = tp->delivered;
	} else if (event == CA_EVENT_LOSS) {
		// The path may have changed: the next sample starts a new minimum.
		west->min_rtt_us = 0;
	}
	return 0;
}

CONTROLLER(westwood, cong_avoid) int westwood_cong_avoid(u64 *arguments)
{
	tcp_reno_cong_avoid((void *)arguments[0], (u32)arguments[1], (u32)arguments[2]);
	return 0;
}

CONTROLLER(westwood, undo_cwnd) u32 westwood_undo_cwnd(u64 *arguments)
{
	return tcp_reno_undo_cwnd((void *)arguments[0]);
}

// === NewReno with a settable initial ssthresh ===

// In segments; zero leaves the kernel's (infinite, or that of the metrics cache). The loader writes it.
const volatile u32 initial_ssthresh = 0;

CONTROLLER(newreno, init) int newreno_init(u64 *arguments)
{
	struct tcp_sock *tp = (void *)arguments[0];

	if (initial_ssthresh)
		tp->snd_ssthresh = initial_ssthresh;
	return 0;
}

CONTROLLER(newreno, ssthresh) u32 newreno_ssthresh(u64 *arguments)
{
	return tcp_reno_ssthresh((void *)arguments[0]);
}

CONTROLLER(newreno, cong_avoid) int newreno_cong_avoid(u64 *arguments)
{
	tcp_reno_cong_avoid((void *)arguments[0], (u32)arguments[1], (u32)arguments[2]);
	return 0;
}

CONTROLLER(newreno, undo_cwnd) u32 newreno_undo_cwnd(u64 *arguments)
{
	return tcp_reno_undo_cwnd((void *)arguments[0]);
}
