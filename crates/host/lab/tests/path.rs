//! The emulated path as its endpoints see it, on real kernels. Needs root; without it, these tests fail.
//!
//! Everything runs inside one isolated process, and the emulator is a process of its own, as in the lab:
//! this binary, started again.

mod support;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, thread};

use libtest_mimic::{Arguments, Failed, Trial};
use link::{Direction, Discipline, Fate, LossSpec, PathSpec, Policer, Red, Reorder, Shift};
use longhaul_lab::emulator::{self, Event, Interval, Sample};
use longhaul_lab::netem::{self, NetemError};
use longhaul_lab::probe::{self, Depth, End, Unmeasured};
use sys::isolation::{self, Privilege};
use sys::namespace::NetworkNamespace;
use units::{Bytes, LossRate, Rate};

use crate::support::{Bench, Family, Outcome, ensure, punctually, symmetric};

static REALTIME_IS_DUE: AtomicBool = AtomicBool::new(true);

#[expect(
    clippy::print_stderr,
    reason = "a test's only way to say why it cannot run"
)]
fn main() -> ExitCode {
    if env::args().nth(1).as_deref() == Some("emulator") {
        return match emulator::worker() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let privilege = match isolation::isolate() {
        Ok(privilege) => privilege,
        Err(error) => {
            eprintln!("{error}; {}", error.hint());
            return ExitCode::from(3);
        }
    };
    // An ordinary user has real-time priority only where the administrator gave it to him.
    REALTIME_IS_DUE.store(privilege == Privilege::Root, Ordering::Relaxed);
    let mut arguments = Arguments::from_args();
    // Each test needs both processors to itself.
    arguments.test_threads = Some(1);
    let tests = vec![
        trial("the_rtt_is_within_2_per_cent_at_200_ms", || rtt(200_400)),
        trial("the_rtt_is_within_2_per_cent_at_20_ms", || rtt(20_000)),
        trial("the_rate_is_within_1_per_cent_both_ways", rate),
        trial("the_rate_is_measured_up_to_6_gbit_per_s", fast_rate),
        trial("a_policer_s_rate_is_measured_behind_its_bucket", policer),
        trial("a_path_that_is_not_as_asked_is_found_out", wrong_path),
        trial("lost_packets_are_the_seed_s_list", losses),
        trial("tcp_goodput_is_within_1_per_cent_of_the_rate", goodput),
        trial("data_survives_offload_splitting_and_loss", || {
            transfer(Family::V4)
        }),
        trial("data_survives_over_ipv6", || transfer(Family::V6)),
        trial("data_survives_everything_at_once", || rough(Family::V4)),
        trial("data_survives_everything_at_once_over_ipv6", || {
            rough(Family::V6)
        }),
        trial("the_emulator_shows_its_queue_and_its_work", readings),
        trial("a_path_is_quiet_when_nothing_is_on_its_way", quiet),
        trial("an_idle_emulator_sleeps", idle),
        trial(
            "netem_and_our_link_agree_where_the_kernel_has_netem",
            agreement,
        ),
        trial("without_a_rate_tcp_is_fast", unlimited),
    ];
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn trial(name: &str, test: impl FnOnce() -> Outcome + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test().map_err(|error| Failed::from(chain(&*error)))
    })
}

/// An error with everything that caused it.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// What `measure` finds on `path`, repeated where the link says of itself that it was late: twice at most, as
/// blocks of the lab are. The link's lateness is no part of what is measured, so nobody tries until it fits.
fn in_time<T>(path: &PathSpec, mut measure: impl FnMut(&mut Bench) -> Outcome<T>) -> Outcome<T> {
    const TRIES: u32 = 3;
    let mut problems = Vec::new();
    for _ in 0..TRIES {
        let mut bench = Bench::new(path)?;
        let found = measure(&mut bench)?;
        let (interval, _) = bench.read()?;
        bench.stop()?;
        problems = interval.problems(path.rtt(), Interval::PUNCTUAL);
        if problems.is_empty() {
            return Ok(found);
        }
        say(&problems.join("; "));
    }
    Err(format!(
        "too late to be judged, {TRIES} times: {}",
        problems.join("; ")
    )
    .into())
}

// === tests ===

fn rtt(micros: u64) -> Outcome {
    let rtt = Duration::from_micros(micros);
    let path = symmetric(rtt, 100, LossSpec::None);
    let reading = in_time(&path, |bench| {
        let due = REALTIME_IS_DUE.load(Ordering::Relaxed);
        ensure(
            bench.realtime.granted || !due,
            bench.realtime.scheduling.as_str(),
        )?;
        bench.measure(Depth::RoundTrip)
    })?;
    say(&format!(
        "{:?} for {rtt:?}, took {:?}",
        reading.rtt(),
        reading.took
    ));
    ensure(reading.rtt_samples.len() == 9, format!("{reading:?}"))?;
    // The emulator's own error is in every echo, so the fastest shows it; whatever else the machine does
    // is in some. No echo may come early: that no other work can cause.
    let fastest = reading
        .rtt_samples
        .iter()
        .min()
        .copied()
        .unwrap_or_default();
    ensure(
        fastest >= rtt.saturating_sub(Duration::from_micros(20)) && fastest <= rtt.mul_f64(1.02),
        format!("{fastest:?} for {rtt:?}: {:?}", reading.rtt_samples),
    )
}

fn rate() -> Outcome {
    for mbit in [1, 10, 100, 200] {
        let path = symmetric(Duration::from_millis(200), mbit, LossSpec::None);
        let (reading, counters) = in_time(&path, |bench| {
            let reading = bench.measure(Depth::Thorough)?;
            Ok((reading, bench.counters()?))
        })?;
        say(&format!(
            "{mbit} Mbit/s: {:?} and {:?}, took {:?}",
            reading.forward.rate, reading.backward.rate, reading.took
        ));
        ensure(reading.is_valid(), format!("{:?}", reading.problems()))?;
        // A path may be off by twice that before a run is invalid; the link never is.
        for direction in Direction::BOTH {
            let rate = reading.direction(direction).rate;
            let rate = rate.map_err(|why| why.to_string())?.bits_per_s();
            let asked = mbit * 1_000_000;
            ensure(
                rate.abs_diff(asked) <= asked / 200,
                format!("{rate} bit/s instead of {asked}"),
            )?;
        }
        // What the probe left behind would disturb whoever comes next.
        let left = counters.forward.in_flight.packets + counters.backward.in_flight.packets;
        ensure(left == 0, format!("{counters:?}"))?;
    }
    Ok(())
}

/// What this machine can send and carry is no claim of ours, but what is said of it must be right: the rate
/// is as asked, or the probe says that it could not send, or the link that it was late.
fn fast_rate() -> Outcome {
    let mut measured = 0;
    for (mbit, family) in [
        (500, Family::V4),
        (1000, Family::V6),
        (2000, Family::V4),
        (6000, Family::V6),
    ] {
        let rtt = Duration::from_millis(20);
        let rate = Some(Rate::mbit_per_s(mbit));
        let path = PathSpec::symmetric(rtt, rate, Bytes::new(15_000_000), LossSpec::None, 42);
        let mut bench = Bench::new(&path)?;
        let reading = bench.measure_against(&path, family, Depth::Thorough)?;
        let (interval, _) = bench.read()?;
        say(&format!(
            "{mbit} Mbit/s over {family:?}: {:?} and {:?}, took {:?}, {:?}",
            reading.forward.rate, reading.backward.rate, reading.took, interval.counters.lateness,
        ));
        let late = !interval.problems(rtt, Interval::PUNCTUAL).is_empty();
        for direction in Direction::BOTH {
            let reading = reading.direction(direction);
            match reading.rate {
                Err(Unmeasured::SenderTooSlow) => {}
                other => {
                    let rate = other.map_err(|why| why.to_string())?;
                    let off = rate.bits_per_s().abs_diff(mbit * 1_000_000);
                    ensure(
                        off <= mbit * 10_000 || late,
                        format!("{rate} instead of {mbit} Mbit/s"),
                    )?;
                    measured += 1;
                }
            }
            ensure(
                reading.lost.is_empty() || late,
                format!("{} lost", reading.lost.len()),
            )?;
        }
        bench.stop()?;
    }
    ensure(measured > 0, "nothing could be measured")
}

fn policer() -> Outcome {
    let rtt = Duration::from_millis(20);
    let mut path = PathSpec::symmetric(rtt, None, Bytes::ZERO, LossSpec::None, 42);
    let policer = |mbit| Policer {
        rate: Rate::mbit_per_s(mbit),
        burst: Bytes::kib(64),
    };
    path.forward.policer = Some(policer(20));
    let mut asked = path.clone();
    asked.forward.policer = Some(policer(21));
    let (reading, other) = in_time(&path, |bench| {
        let reading = bench.measure(Depth::Thorough)?;
        let other = bench.measure_against(&asked, Family::V4, Depth::Thorough)?;
        Ok((reading, other))
    })?;
    say(&format!("{:?}", reading.forward.rate));
    ensure(reading.is_valid(), reading.problems().join("; "))?;
    let problems = other.problems().join("; ");
    ensure(problems.contains("the rate is"), problems)
}

fn wrong_path() -> Outcome {
    let asked = symmetric(Duration::from_millis(20), 50, LossSpec::None);
    let wrong = [
        (
            "the RTT is",
            symmetric(Duration::from_millis(21), 50, LossSpec::None),
        ),
        (
            "the rate is",
            symmetric(Duration::from_millis(20), 51, LossSpec::None),
        ),
        (
            "the rate is",
            symmetric(Duration::from_millis(20), 49, LossSpec::None),
        ),
        (
            "did not arrive",
            symmetric(
                Duration::from_millis(20),
                50,
                LossSpec::Listed(vec![30, 31]),
            ),
        ),
    ];
    for (complaint, built) in wrong {
        let reading = in_time(&built, |bench| {
            bench.measure_against(&asked, Family::V4, Depth::Thorough)
        })?;
        let problems = reading.problems().join("; ");
        ensure(
            problems.contains(complaint),
            format!("{complaint:?} not in {problems:?}"),
        )?;
    }
    Ok(())
}

fn losses() -> Outcome {
    let loss = LossSpec::Bernoulli(LossRate::per_billion(20_000_000).ok_or("2 %")?);
    let path = symmetric(Duration::from_millis(40), 100, loss);
    let reading = in_time(&path, |bench| bench.measure(Depth::Thorough))?;
    for direction in Direction::BOTH {
        let seen = reading.direction(direction);
        let predicted: Vec<u64> = (0..seen.sent)
            .filter(|&n| path.forward.loss.fate(path.seed, direction, n) == Fate::Lost)
            .collect();
        ensure(
            seen.lost == predicted && predicted.len() > 5,
            format!(
                "{direction}: endpoints miss {:?}, the seed says {predicted:?}",
                seen.lost
            ),
        )?;
    }
    Ok(())
}

fn goodput() -> Outcome {
    let path = symmetric(Duration::from_millis(20), 100, LossSpec::None);
    let (run, ticks, counters) = in_time(&path, |bench| {
        // Whoever reads late counts late. Behind the sender is a buffer of megabytes.
        let run = punctually(|| bench.transfer(Family::V4, 24_000_000))?;
        Ok((run, bench.processor_time()?, bench.counters()?))
    })?;
    // From when the path is full: the last two thirds, 1448 bytes of each 1500.
    let theory = 100e6 * 1448.0 / 1500.0;
    let error = run.steady_bps / theory - 1.0;
    say(&format!(
        "{:.3} Mbit/s, {:+.2} % off, {ticks} ticks of 10 ms, {:?}",
        run.steady_bps / 1e6,
        error * 100.0,
        counters.lateness,
    ));
    ensure(run.intact, "the data was damaged")?;
    ensure(error.abs() < 0.01, format!("{:+.2} % off", error * 100.0))
}

fn transfer(family: Family) -> Outcome {
    // Losses part superpackets in the middle; 400 Mbit/s lets three segments leave together.
    let loss = LossSpec::Bernoulli(LossRate::per_billion(2_000_000).ok_or("0.2 %")?);
    let bench = Bench::new(&symmetric(Duration::from_millis(4), 400, loss))?;
    let run = bench.transfer(family, 20_000_000)?;
    let counters = bench.stop()?;
    say(&format!("{counters:?}"));
    ensure(run.intact, "the data was damaged")?;
    ensure(
        counters.forward.lost.packets > 5,
        "nothing was lost, so nothing was shown",
    )?;
    ensure(
        counters.unreadable + counters.undeliverable == 0,
        format!("{counters:?}"),
    )
}

/// Loss, copies, reordering, damage and congestion marks: what the splitter and the alterations make of it
/// shows in the receiver's own counters, and in the data.
fn rough(family: Family) -> Outcome {
    let share = |billionths| LossRate::per_billion(billionths).ok_or("a share");
    let mut path = symmetric(Duration::from_millis(4), 400, LossSpec::None);
    path.forward.loss = LossSpec::Bernoulli(share(1_000_000)?);
    path.forward.duplicate = share(5_000_000)?;
    path.forward.corrupt = share(1_000_000)?;
    path.forward.reorder = Some(Reorder {
        share: share(5_000_000)?,
        shift: Shift::Late(Duration::from_millis(1)),
    });
    // Marks from two waiting packets on, so that there are some however much the losses slow TCP down.
    path.forward.discipline = Discipline::Red(Red {
        min: Bytes::new(3_000).into(),
        max: Bytes::new(60_000).into(),
        probability: share(50_000_000)?,
        weight: share(250_000_000)?,
        gentle: true,
        ecn: true,
    });
    let bench = Bench::new(&path)?;
    for namespace in [&bench.near, &bench.far] {
        namespace.set_sysctl("net.ipv4.tcp_ecn", "1")?;
        // Which packet the SYN is depends on what IPv6 has said before, so it may be one that is lost: sent
        // again it must not give up marks (RFC 3168 section 6.1.1.1).
        namespace.set_sysctl("net.ipv4.tcp_ecn_fallback", "0")?;
    }
    let run = bench.transfer(family, 10_000_000)?;
    let (file, line, name) = match family {
        Family::V4 => ("netstat", "IpExt:", "InCEPkts"),
        Family::V6 => ("snmp6", "Ip6InCEPkts", ""),
    };
    let marks = bench.far_counter(file, line, name)?;
    let damaged = bench.far_counter("snmp", "Tcp:", "InCsumErrors")?;
    let counters = bench.stop()?;
    let forward = counters.forward;
    say(&format!(
        "{marks} marks and {damaged} wrong checksums received, {forward:?}"
    ));
    ensure(run.intact, "the data was damaged")?;
    for (what, count) in [
        ("lost", forward.lost),
        ("duplicated", forward.duplicated),
        ("reordered", forward.reordered),
        ("corrupted", forward.corrupted),
        ("marked", forward.marked),
    ] {
        ensure(count.packets > 0, format!("no packet was {what}"))?;
    }
    ensure(marks > 0, "the receiver saw no mark")?;
    ensure(damaged > 0, "the receiver saw no damage")?;
    ensure(
        counters.unreadable + counters.undeliverable == 0,
        format!("{counters:?}"),
    )
}

fn readings() -> Outcome {
    let mut bench = Bench::new(&symmetric(Duration::from_millis(20), 20, LossSpec::None))?;
    bench.tell("sample 0.02")?;
    let run = bench.transfer(Family::V4, 6_000_000)?;
    bench.tell("sample off")?;
    let (first, samples) = bench.read()?;
    say(&format!("{} samples, {first:?}", samples.len()));
    ensure(run.intact, "the data was damaged")?;
    // 6 MB take 2.4 s and more: some 120 samples, of which a machine that stands still loses some.
    ensure(samples.len() > 30, format!("{} samples", samples.len()))?;
    let peak = |sample: &Sample| sample.forward.queue_peak_bytes;
    let highest = samples.iter().map(peak).max().unwrap_or(0);
    let carried: u64 = samples
        .iter()
        .map(|sample| sample.forward.delivered_bytes)
        .sum();
    let counters = &first.counters.forward;
    ensure(
        highest == counters.queue_peak && highest > 10_000,
        format!("{highest} in the samples, {counters:?}"),
    )?;
    ensure(
        carried <= counters.delivered.bytes && carried > 5_900_000,
        format!("{carried} in the samples, {counters:?}"),
    )?;
    for sample in &samples {
        let forward = sample.forward;
        ensure(
            forward.queue_bytes <= forward.queue_peak_bytes
                && (forward.queue_bytes == 0) == (forward.queue_packets == 0),
            format!("{forward:?}"),
        )?;
    }

    let (second, none) = bench.read()?;
    ensure(none.is_empty(), "samples after their end")?;
    ensure(
        (second.from_unix_s - first.to_unix_s).abs() < 1e-9,
        "a gap between two intervals",
    )?;
    bench.tell("reed")?;
    ensure(
        matches!(bench.event()?, Event::Refused { .. }),
        "an unknown command was not refused",
    )?;
    // Only the last acknowledgements can still have been on their way.
    let (early, late) = (&first.counters.backward, &second.counters.backward);
    let all = bench.stop()?.backward;
    ensure(
        late.delivered.packets < early.delivered.packets / 10
            && early.delivered.packets + late.delivered.packets <= all.delivered.packets,
        format!("{early:?} and then {late:?} of {all:?}"),
    )
}

fn quiet() -> Outcome {
    let mut bench = Bench::new(&symmetric(Duration::from_secs(2), 100, LossSpec::None))?;
    bench.transfer(Family::V4, 10_000)?;
    // The receiver has everything; its last acknowledgement takes a second, time enough to ask on a busy machine.
    let before = bench.counters()?;
    ensure(before.backward.in_flight.packets > 0, format!("{before:?}"))?;
    bench.tell("quiet 0.001")?;
    let said = bench.event()?;
    ensure(said == Event::Quiet, format!("{said:?}"))?;
    let (interval, _) = bench.read()?;
    let left = [interval.counters.forward, interval.counters.backward]
        .map(|way| way.queued.packets + way.in_flight.packets);
    ensure(left == [0, 0], format!("{left:?} packets on a quiet path"))?;
    bench.stop().map(|_| ())
}

fn idle() -> Outcome {
    let bench = Bench::new(&symmetric(Duration::from_millis(20), 100, LossSpec::None))?;
    bench.measure(Depth::RoundTrip)?;
    let before = bench.processor_time()?;
    thread::sleep(Duration::from_millis(500));
    let spent = bench.processor_time()? - before;
    // Ticks of 10 ms; a busy loop would take fifty.
    ensure(
        spent <= 1,
        format!("{spent} ticks in 500 ms without a packet"),
    )?;
    bench.stop().map(|_| ())
}

/// Both emulators play the same path, and the probe finds the same. A kernel without netem has to say so, and
/// how to get it; the comparison is not run there, which is printed.
fn agreement() -> Outcome {
    let path = symmetric(Duration::from_millis(40), 50, LossSpec::None);
    let ends = ["near", "far"].map(NetworkNamespace::create);
    let [near, far] = ends;
    let (near, far) = (near?, far?);
    near.veth("wan0", &far, "wan0")?;
    for (namespace, number) in [(&near, 1), (&far, 2)] {
        namespace.ip(&format!(
            "addr add 10.201.0.{number}/24 dev wan0\nlink set wan0 up"
        ))?;
    }
    let directions = [(&near, Direction::Forward), (&far, Direction::Backward)];
    for (namespace, direction) in directions {
        let tc = || namespace.command("tc");
        match netem::apply(path.direction(direction), "wan0", tc) {
            Ok(()) => {}
            Err(NetemError::Missing) => {
                let said = NetemError::Missing.to_string();
                ensure(
                    said.contains("modprobe sch_netem") && said.contains("the lab's own link"),
                    said,
                )?;
                tell("not compared with netem: this kernel has none");
                return Ok(());
            }
            Err(other) => return Err(other.into()),
        }
    }
    let end = |namespace, number| End {
        namespace,
        address: [10, 201, 0, number].into(),
    };
    let theirs = probe::measure(&path, end(&near, 1), end(&far, 2), Depth::Thorough)?;
    let bench = Bench::new(&path)?;
    let ours = bench.measure(Depth::Thorough)?;
    bench.stop()?;
    tell(&format!("ours: {ours:?}\nnetem: {theirs:?}"));
    let apart = |one: f64, other: f64| (one / other - 1.0).abs();
    let rtts = [&ours, &theirs].map(|reading| reading.rtt().unwrap_or_default().as_secs_f64());
    ensure(apart(rtts[0], rtts[1]) < 0.02, format!("{rtts:?}"))?;
    for direction in Direction::BOTH {
        let rates = [&ours, &theirs].map(|reading| reading.direction(direction).rate);
        let [Ok(one), Ok(other)] = rates else {
            return Err(format!("no rate: {rates:?}").into());
        };
        // On Ethernet netem's bucket counts 14 bytes of every packet more.
        let apart = one.bits_per_s().abs_diff(other.bits_per_s()) * 100 / other.bits_per_s();
        ensure(apart < 3, format!("{one} and {other}"))?;
    }
    Ok(())
}

fn unlimited() -> Outcome {
    for delay_ms in [0, 35] {
        let rtt = Duration::from_millis(2 * delay_ms);
        let path = PathSpec::symmetric(rtt, None, Bytes::ZERO, LossSpec::None, 1);
        let bench = Bench::new(&path)?;
        let run = bench.transfer(Family::V4, 1_500_000_000)?;
        let counters = bench.stop()?;
        say(&format!(
            "{delay_ms} ms one way: {:.2} Gbit/s, lateness {:?}",
            run.steady_bps / 1e9,
            counters.lateness
        ));
        ensure(run.intact, "the data was damaged")?;
        ensure(
            counters.forward.dropped.packets == 0,
            format!("{counters:?}"),
        )?;
    }
    Ok(())
}

/// What everybody should know who reads a log.
#[expect(
    clippy::print_stderr,
    reason = "standard output belongs to the harness"
)]
fn tell(line: &str) {
    eprintln!("    {line}");
}

/// Measured figures, for whoever asks for them with `--nocapture`.
#[expect(
    clippy::print_stderr,
    reason = "standard output belongs to the harness"
)]
fn say(line: &str) {
    if env::args().any(|argument| argument == "--nocapture") {
        eprintln!("    {line}");
    }
}
