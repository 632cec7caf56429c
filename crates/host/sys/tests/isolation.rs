//! Isolation, namespaces and devices on the real kernel. Needs root; without it, these tests fail.
//!
//! The test binary starts itself again as the process to be isolated, because `isolate` must come before
//! any thread and the test harness has threads.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::{env, fs, process};

use libtest_mimic::{Arguments, Failed, Trial};
use longhaul_sys::isolation::{self, Privilege};
use longhaul_sys::namespace::{NamespaceError, NetworkNamespace};
use longhaul_sys::tun::Tun;

fn main() -> ExitCode {
    if let Ok(role) = env::var("LONGHAUL_TEST_ROLE") {
        return play(&role);
    }
    let tests = vec![
        trial("a_namespace_has_its_own_devices_and_sysctls", own_devices),
        trial("ip_errors_carry_the_line_and_the_reason", ip_errors),
        trial("a_veth_pair_joins_two_namespaces", veth_pair),
        trial(
            "a_route_takes_a_congestion_control_and_a_window",
            route_attributes,
        ),
        trial("a_namespace_takes_its_devices_with_it", devices_go),
        trial("a_process_can_see_its_own_hosts_file", own_hosts),
        trial("the_status_of_the_inner_process_is_passed_on", status),
        trial("a_signal_reaches_the_inner_process", signal),
        trial("killing_the_outer_process_leaves_nothing", || {
            kill_leaves_nothing(Victim::Outer)
        }),
        trial("killing_the_inner_process_leaves_nothing", || {
            kill_leaves_nothing(Victim::Inner)
        }),
        trial("an_ordinary_user_is_isolated_in_a_user_namespace", rootless),
        trial(
            "where_namespaces_are_forbidden_it_says_what_to_do",
            forbidden,
        ),
        trial("a_process_with_threads_is_refused", threads),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
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

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Turns a wrong expectation into a failure with its own words.
fn ensure(holds: bool, otherwise: impl Into<String>) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(otherwise.into().into())
    }
}

// === namespaces ===

fn own_devices() -> Outcome {
    let namespace = NetworkNamespace::create("alone")?;
    let devices = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/dev"))??;
    let names: Vec<_> = devices
        .lines()
        .skip(2)
        .filter_map(|line| line.split(':').next())
        .map(str::trim)
        .collect();
    ensure(
        names.contains(&"lo") && !names.contains(&"eth0"),
        format!("{names:?}"),
    )?;

    let key = "net.ipv4.tcp_slow_start_after_idle";
    let outside = NetworkNamespace::create("other")?.sysctl(key)?;
    ensure(
        namespace.set_sysctl(key, "0")? == "0",
        "a sysctl reads back differently",
    )?;
    let other = NetworkNamespace::create("third")?.sysctl(key)?;
    ensure(
        other == outside,
        "a sysctl of one namespace shows in another",
    )?;

    let refused = namespace.set_sysctl("net.ipv4.no_such_thing", "1");
    let named = matches!(&refused, Err(NamespaceError::WriteSysctl { key, .. })
        if key == "net.ipv4.no_such_thing");
    ensure(named, format!("{refused:?}"))
}

fn ip_errors() -> Outcome {
    let namespace = NetworkNamespace::create("wrong")?;
    let lines = "link add one type veth peer name other\nlink set two up\nlink del one";
    let Err(error) = namespace.ip(lines) else {
        return Err("a device that does not exist was set up".into());
    };
    let text = error.to_string();
    ensure(
        text.contains("ip link set two up") && text.contains("Cannot find device"),
        text,
    )
}

fn veth_pair() -> Outcome {
    let (left, right) = (
        NetworkNamespace::create("left")?,
        NetworkNamespace::create("right")?,
    );
    left.veth("v0", &right, "v1")?;
    left.ip("addr add 10.9.0.1/30 dev v0\nlink set v0 up")?;
    right.ip("addr add 10.9.0.2/30 dev v1\nlink set v1 up")?;
    let listener = right.enter(|| std::net::TcpListener::bind("10.9.0.2:0"))??;
    let address = listener.local_addr()?;
    let mut client = left.enter(|| std::net::TcpStream::connect(address))??;
    client.write_all(b"across")?;
    drop(client);
    let mut text = String::new();
    listener.accept()?.0.read_to_string(&mut text)?;
    ensure(text == "across", text)
}

fn route_attributes() -> Outcome {
    let namespace = NetworkNamespace::create("routes")?;
    namespace.ip(
        "link add d0 type veth peer name d1\naddr add 10.9.1.1/24 dev d0\nlink set d0 up\n\
         route change 10.9.1.0/24 dev d0 initcwnd 40 congctl cubic",
    )?;
    let shown = namespace
        .command("ip")
        .args(["route", "show"])
        .output()?
        .stdout;
    let shown = String::from_utf8(shown)?;
    ensure(
        shown.contains("initcwnd 40") && shown.contains("congctl cubic"),
        shown,
    )
}

fn devices_go() -> Outcome {
    let (left, right) = (
        NetworkNamespace::create("gone")?,
        NetworkNamespace::create("stays")?,
    );
    right.veth("v1", &left, "v0")?;
    let tun = Tun::create_in(&left, "t0")?;
    ensure(tun.name() == "t0", tun.name())?;
    drop(tun);
    let devices = || -> Result<String, Box<dyn std::error::Error>> {
        Ok(right.enter(|| fs::read_to_string("/proc/thread-self/net/dev"))??)
    };
    ensure(devices()?.contains("v1"), "the pair was not made")?;
    drop(left);
    // The kernel removes a namespace from a work queue; the pair's other end goes with it.
    wait_until("the pair is gone", || Ok(!devices()?.contains("v1")))
}

fn own_hosts() -> Outcome {
    let namespace = NetworkNamespace::create("names")?;
    let hosts = env::temp_dir().join(format!("longhaul-hosts-{}", process::id()));
    fs::write(&hosts, "10.9.9.9 origin.example\n")?;
    let mut command = namespace.command("getent");
    command.args(["hosts", "origin.example"]);
    isolation::bind_files(&mut command, &[(&hosts, Path::new("/etc/hosts"))])?;
    isolation::die_with_parent(&mut command);
    let output = command.output();
    fs::remove_file(&hosts)?;
    let answer = String::from_utf8(output?.stdout)?;
    ensure(answer.contains("10.9.9.9"), answer)?;
    let own = fs::read_to_string("/etc/hosts")?;
    ensure(
        !own.contains("origin.example"),
        "the test's own /etc/hosts changed",
    )
}

// === isolation ===

#[derive(Clone, Copy, Debug)]
enum Victim {
    Outer,
    Inner,
}

fn status() -> Outcome {
    let exited = Role::new("exit-7").spawn()?.wait()?;
    ensure(exited.code() == Some(7), exited.to_string())?;
    let killed = Role::new("die").spawn()?.wait()?;
    ensure(killed.code() == Some(128 + 9), killed.to_string())
}

fn signal() -> Outcome {
    let mut outer = Role::new("network").argument("29.5").spawn()?;
    outer.read_line()?;
    signal_process(outer.child.id(), SIGTERM)?;
    let ended = outer.wait()?;
    // The inner process does not handle it, so it dies of it, and the outer one says so.
    ensure(ended.code() == Some(128 + SIGTERM), ended.to_string())
}

fn kill_leaves_nothing(victim: Victim) -> Outcome {
    let seconds = match victim {
        Victim::Outer => 31,
        Victim::Inner => 32,
    };
    // Seconds for `sleep` that no other process on this machine sleeps.
    let marker = format!("{seconds}{}.25", process::id());
    let mut outer = Role::new("network").argument(&marker).spawn()?;
    let ready = outer.read_line()?;
    ensure(ready.trim() == "ready Root", ready)?;
    let family = processes_with(&marker)?;
    // Outer, init, inner, and the two sleeps it started, one of them in a session of its own.
    ensure(family.len() == 5, format!("{family:?}"))?;
    let inner = family
        .iter()
        .find(|(pid, _)| is_second_of_its_namespace(*pid));
    let victim = match victim {
        Victim::Outer => outer.child.id(),
        Victim::Inner => inner.map(|(pid, _)| *pid).ok_or("no inner process")?,
    };
    signal_process(victim, 9)?;
    outer.wait()?;
    wait_until("nothing is left", || {
        let left = processes_with(&marker)?;
        Ok(left.is_empty() && !fs::read_to_string("/proc/net/dev")?.contains("lhtest"))
    })
}

fn rootless() -> Outcome {
    let mut outer = Role::new("network").argument("30.5").by_nobody().spawn()?;
    let ready = outer.read_line()?;
    ensure(ready.trim() == "ready UserNamespace", ready)?;
    signal_process(outer.child.id(), 9)?;
    outer.wait()?;
    Ok(())
}

fn forbidden() -> Outcome {
    // In a user namespace of its own, with the number of further ones limited to none, and every
    // capability given up, a process is where an ordinary user is on a system that forbids them.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && \
                  exec setpriv --bounding-set -all --inh-caps -all -- \"$0\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script])
        .arg(env::current_exe()?)
        .env("LONGHAUL_TEST_ROLE", "exit-7")
        .output()?;
    let said = String::from_utf8(output.stdout)?;
    ensure(
        output.status.code() == Some(3),
        format!(
            "{}: {said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ),
    )?;
    ensure(said.contains("cannot create a process namespace"), &said)?;
    ensure(
        said.contains("sysctl -w user.max_user_namespaces=10000"),
        said,
    )
}

fn threads() -> Outcome {
    let error = match isolation::isolate() {
        Err(error) => error.to_string(),
        Ok(_) => return Err("a process with threads was isolated".into()),
    };
    ensure(error.contains("threads"), error)
}

// === the process to be isolated ===

fn play(role: &str) -> ExitCode {
    let privilege = match isolation::isolate() {
        Ok(privilege) => privilege,
        Err(error) => {
            say(&format!("{error}; {}", error.hint()));
            return ExitCode::from(3);
        }
    };
    match role {
        "exit-7" => ExitCode::from(7),
        "die" => {
            let _sent = signal_process(process::id(), 9);
            ExitCode::FAILURE
        }
        _ => match network(privilege) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(&format!("failed: {error}"));
                ExitCode::FAILURE
            }
        },
    }
}

/// Namespaces, devices and processes, to be left behind by a kill.
fn network(privilege: Privilege) -> Outcome {
    ensure(process::id() == 2, "init is pid 1, the inner process pid 2")?;
    let (near, far) = (
        NetworkNamespace::create("near")?,
        NetworkNamespace::create("far")?,
    );
    near.veth("lhtest0", &far, "lhtest1")?;
    // An ordinary user may use TUN only where /dev/net/tun is open to all, as distributions have it.
    let _tun = match privilege {
        Privilege::Root => Some(Tun::create_in(&near, "lhtest2")?),
        Privilege::UserNamespace => None,
    };
    let seconds = env::args().next_back().unwrap_or_default();
    let mut detached = far.command("setsid");
    let _detached = detached.args(["sleep", &seconds]).spawn()?;
    let mut child = near.command("sleep");
    let mut child = child.arg(&seconds).spawn()?;
    wait_until("both run", || {
        let sleeping = processes_with(&seconds)?;
        Ok(sleeping
            .iter()
            .filter(|(_, line)| line.starts_with("sleep"))
            .count()
            == 2)
    })?;
    say(&format!("ready {privilege:?}"));
    child.wait()?;
    Ok(())
}

// === helpers ===

struct Role {
    command: Command,
}

impl Role {
    fn new(name: &str) -> Self {
        let mut command = Command::new("/proc/self/exe");
        command
            .env("LONGHAUL_TEST_ROLE", name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        Self { command }
    }

    fn argument(mut self, argument: &str) -> Self {
        self.command.arg(argument);
        self
    }

    fn by_nobody(mut self) -> Self {
        self.command.uid(65_534).gid(65_534);
        self
    }

    fn spawn(mut self) -> io::Result<Outer> {
        self.command.spawn().map(|child| Outer { child })
    }
}

/// A process that isolated itself. Whatever becomes of the test, it ends with it.
struct Outer {
    child: Child,
}

impl Outer {
    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if let Some(stdout) = self.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        Ok(line)
    }

    fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        // It has ended already where the test did not fail.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

#[expect(clippy::print_stdout, reason = "the pipe to the test")]
fn say(line: &str) {
    println!("{line}");
}

const SIGTERM: i32 = 15;

fn signal_process(pid: u32, signal: i32) -> Outcome {
    let sent = Command::new("kill")
        .args([format!("-{signal}"), pid.to_string()])
        .status()?;
    ensure(sent.success(), format!("kill -{signal} {pid}: {sent}"))
}

/// Pid and command line (zero-separated) of every process with `marker` in it, but this one.
fn processes_with(marker: &str) -> Result<Vec<(u32, String)>, Box<dyn std::error::Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let pid = path
            .file_name()
            .and_then(|name| name.to_str()?.parse::<u32>().ok());
        let (Some(pid), Ok(line)) = (pid, fs::read(path.join("cmdline"))) else {
            continue;
        };
        let line = String::from_utf8_lossy(&line).into_owned();
        if pid != process::id() && line.contains(marker) {
            found.push((pid, line));
        }
    }
    Ok(found)
}

/// Whether a process has pid 2 inside its own namespace: `NSpid: 4711 2` (`proc_pid_status(5)`).
fn is_second_of_its_namespace(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    lines.any(|line| line.starts_with("NSpid:") && line.ends_with("\t2"))
}

/// Polls for what the kernel does in its own time; the bound only ends a test that has failed.
fn wait_until(
    what: &str,
    mut holds: impl FnMut() -> Result<bool, Box<dyn std::error::Error>>,
) -> Outcome {
    for _ in 0..500 {
        if holds()? {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err(format!("not within 5 s: {what}").into())
}
