//! Every script of `scripts/conformance` against the kernel of this machine, over IPv4 and IPv6: a script
//! that describes TCP wrongly fails here.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use controllers::{Controller, ControllerError, Wanted};
use longhaul_flow::play::against_kernel;
use script::{Script, Tolerance, Who};

/// What kernels do not ship, put in for as long as a test plays.
struct Controllers;

/// How many tests play now: the last takes the controllers out.
static PLAYING: Mutex<usize> = Mutex::new(0);

impl Controllers {
    fn load() -> Self {
        let mut playing = PLAYING.lock().unwrap();
        *playing += 1;
        let mut loaded = LOADED.lock().unwrap();
        for controller in [Controller::HighSpeed, Controller::WestwoodPlus] {
            let wanted = Wanted {
                controller,
                name: controller.default_name(None),
                initial_ssthresh: None,
            };
            match controllers::load(&wanted) {
                Ok(()) => loaded.push(wanted.name),
                // Another test's, or the host's own, which stays.
                Err(ControllerError::Exists(_)) => {}
                Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
            }
        }
        Self
    }
}

/// What these tests have put in.
static LOADED: Mutex<Vec<controllers::Name>> = Mutex::new(Vec::new());

impl Drop for Controllers {
    fn drop(&mut self) {
        let mut playing = PLAYING.lock().unwrap();
        *playing -= 1;
        if *playing == 0 {
            for name in LOADED.lock().unwrap().drain(..) {
                controllers::unload(&name).unwrap();
            }
        }
    }
}

/// Scripts at a time; nearly all of their time is waiting.
const LANES: usize = 6;

fn scripts() -> Vec<(PathBuf, Script)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/conformance");
    let only = std::env::var("PLAY").unwrap_or_default();
    let mut scripts: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "play")
        })
        .filter(|path| path.to_string_lossy().contains(&only))
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let script = Script::read(&text).unwrap();
            (path, script)
        })
        .collect();
    scripts.sort_by(|one, other| one.0.cmp(&other.0));
    scripts
}

fn play_all(ipv6: bool) {
    let _controllers = Controllers::load();
    let scripts = scripts();
    let next = Mutex::new(scripts.iter());
    let failures = Mutex::new(String::new());
    let played = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let Some((path, script)) = next.lock().unwrap().next() else {
                        break;
                    };
                    if script.excludes(Who::Kernel).is_some() {
                        continue;
                    }
                    *played.lock().unwrap() += 1;
                    let name = path.file_name().unwrap().to_string_lossy();
                    let trouble = match against_kernel(script, ipv6, Tolerance::default()) {
                        Err(error) => format!("{error:?}"),
                        Ok(verdict) => match verdict.play.failure {
                            None => continue,
                            Some(failure) => {
                                format!("{failure} (late by {:?} at worst)", verdict.late)
                            }
                        },
                    };
                    writeln!(failures.lock().unwrap(), "{name}: {trouble}").unwrap();
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "\n{failures}");
    let played = played.into_inner().unwrap();
    assert!(played >= 30, "only {played} scripts were played");
}

#[test]
fn the_kernel_does_what_the_scripts_say_over_ipv4() {
    play_all(false);
}

#[test]
fn the_kernel_does_what_the_scripts_say_over_ipv6() {
    play_all(true);
}
