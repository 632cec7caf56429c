//! Packages: `.deb`, `.rpm` and a tarball around a binary that is built already.
//!
//! `cargo xtask package deb|rpm|tar|all [--binary FILE] [--out DIR] [--version VERSION]`. The tree is laid out once; `dpkg-deb`, `rpmbuild`
//! and `tar` (GNU) put it into their envelopes. Times are those of the last commit (`SOURCE_DATE_EPOCH`), owners are
//! root, names are sorted: the same binary gives the same package to the byte.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::components;

/// What is asked for.
struct Plan {
    kinds: Vec<&'static str>,
    binary: PathBuf,
    out: PathBuf,
    epoch: String,
    /// What the packages call themselves: other than the workspace's own only to try an upgrade.
    version: String,
}

const USAGE: &str =
    "usage: cargo xtask package deb|rpm|tar|all [--binary FILE] [--out DIR] [--version VERSION]";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Files that go in as they are: from where in the checkout, to where, and their mode.
const FILES: [(&str, &str, u32); 14] = [
    (
        "packaging/config/relay.toml",
        "etc/longhaul/relay.toml",
        0o644,
    ),
    (
        "packaging/systemd/longhaul-relay.service",
        "usr/lib/systemd/system/longhaul-relay.service",
        0o644,
    ),
    (
        "packaging/systemd/longhaul-trunk.service",
        "usr/lib/systemd/system/longhaul-trunk.service",
        0o644,
    ),
    (
        "packaging/systemd/longhaul-trunk@.service",
        "usr/lib/systemd/system/longhaul-trunk@.service",
        0o644,
    ),
    (
        "packaging/systemd/longhaul-cc@.service",
        "usr/lib/systemd/system/longhaul-cc@.service",
        0o644,
    ),
    (
        "packaging/sysusers/longhaul.conf",
        "usr/lib/sysusers.d/longhaul.conf",
        0o644,
    ),
    ("LICENSE", "usr/share/doc/longhaul/copyright", 0o644),
    ("README.md", "usr/share/doc/longhaul/README.md", 0o644),
    ("CHANGELOG.md", "usr/share/doc/longhaul/CHANGELOG.md", 0o644),
    (
        "examples/prometheus/prometheus.yml",
        "usr/share/doc/longhaul/examples/prometheus.yml",
        0o644,
    ),
    (
        "examples/prometheus/alerts.yml",
        "usr/share/doc/longhaul/examples/alerts.yml",
        0o644,
    ),
    (
        "examples/grafana/relay.json",
        "usr/share/doc/longhaul/examples/grafana.json",
        0o644,
    ),
    (
        "examples/keepalived/keepalived.conf",
        "usr/share/doc/longhaul/examples/keepalived.conf",
        0o644,
    ),
    (
        "packaging/kubernetes/relay.yaml",
        "usr/share/doc/longhaul/examples/relay.yaml",
        0o644,
    ),
];

/// Completions: the shell, and where its files go.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/longhaul"),
    ("zsh", "usr/share/zsh/vendor-completions/_longhaul"),
    ("fish", "usr/share/fish/vendor_completions.d/longhaul.fish"),
];

pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let plan = plan(arguments)?;
    fs::create_dir_all(&plan.out)
        .with_context(|| format!("cannot make `{}`", plan.out.display()))?;
    let tree = plan.out.join("tree");
    lay_out(&plan, &tree)?;
    for kind in &plan.kinds {
        let made = match *kind {
            "deb" => deb(&plan, &tree)?,
            "rpm" => rpm(&plan, &tree)?,
            _ => tar(&plan, &tree)?,
        };
        println!("{}", made.display());
    }
    Ok(())
}

fn plan(mut arguments: impl Iterator<Item = String>) -> Result<Plan> {
    let kinds = match arguments.next().as_deref() {
        Some("deb") => vec!["deb"],
        Some("rpm") => vec!["rpm"],
        Some("tar") => vec!["tar"],
        Some("all") => vec!["deb", "rpm", "tar"],
        _ => bail!("{USAGE}"),
    };
    let mut plan = Plan {
        kinds,
        binary: "target/release/longhaul".into(),
        out: "out/packages".into(),
        epoch: epoch()?,
        version: VERSION.to_owned(),
    };
    while let Some(flag) = arguments.next() {
        let value = arguments.next().with_context(|| USAGE.to_owned())?;
        match flag.as_str() {
            "--binary" => plan.binary = value.into(),
            "--out" => plan.out = value.into(),
            "--version" => plan.version = value,
            _ => bail!("`{flag}` is unknown\n{USAGE}"),
        }
    }
    ensure!(
        plan.binary.is_file(),
        "there is no `{}`: `cargo build --release -p longhaul-cli` makes it, `--binary` names another",
        plan.binary.display()
    );
    Ok(plan)
}

/// Seconds since 1970 of the last commit, or what the environment says.
fn epoch() -> Result<String> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    output(Command::new("git").args(["log", "-1", "--format=%ct"]))
}

fn lay_out(plan: &Plan, tree: &Path) -> Result<()> {
    if tree.exists() {
        fs::remove_dir_all(tree).context("cannot remove the last tree")?;
    }
    let binary = tree.join("usr/bin/longhaul");
    install(&plan.binary, &binary, 0o755)?;
    output(Command::new("strip").arg("--strip-debug").arg(&binary))?;
    for (from, to, mode) in FILES {
        install(Path::new(from), &tree.join(to), mode)?;
    }
    for (shell, to) in COMPLETIONS {
        let script = output(Command::new(&plan.binary).args(["completions", shell]))?;
        write(&tree.join(to), &(script + "\n"))?;
    }
    let manual = tree.join("usr/share/man/man1");
    output(Command::new(&plan.binary).arg("manual").arg(&manual))?;
    let mut pages: Vec<_> = fs::read_dir(&manual)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    pages.sort();
    ensure!(
        pages.len() > 10,
        "the binary wrote {} manual pages",
        pages.len()
    );
    output(Command::new("gzip").args(["-9n"]).args(&pages))?;
    let documents = tree.join("usr/share/doc/longhaul");
    write(&documents.join("sbom.cdx.json"), &components::bill()?)?;
    write(&documents.join("THIRD-PARTY.md"), &components::licences()?)?;
    // Everything gets the same time; `find -h` leaves no link behind.
    let touch = format!("@{}", plan.epoch);
    let find = ["-exec", "touch", "-h", "-d", &touch, "{}", "+"];
    output(Command::new("find").arg(tree).args(find)).map(drop)
}

fn deb(plan: &Plan, tree: &Path) -> Result<PathBuf> {
    let root = plan.out.join("deb");
    copy_tree(tree, &root)?;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64el",
        other => other,
    };
    let kib = output(
        Command::new("du")
            .args(["-sk", "--apparent-size"])
            .arg(tree),
    )?;
    let control = fs::read_to_string("packaging/debian/control.in")?
        .replace("@VERSION@", &plan.version)
        .replace("@ARCHITECTURE@", architecture)
        .replace(
            "@INSTALLED_KIB@",
            kib.split_whitespace().next().unwrap_or("0"),
        );
    let folder = root.join("DEBIAN");
    write(&folder.join("control"), &control)?;
    write(&folder.join("conffiles"), "/etc/longhaul/relay.toml\n")?;
    for script in ["postinst", "prerm", "postrm"] {
        install(
            &Path::new("packaging/debian").join(script),
            &folder.join(script),
            0o755,
        )?;
    }
    let package = plan
        .out
        .join(format!("longhaul_{}_{architecture}.deb", plan.version));
    output(
        Command::new("dpkg-deb")
            .env("SOURCE_DATE_EPOCH", &plan.epoch)
            .args(["--root-owner-group", "-Zxz", "--build"])
            .args([&root, &package]),
    )?;
    fs::remove_dir_all(&root)?;
    Ok(package)
}

fn rpm(plan: &Plan, tree: &Path) -> Result<PathBuf> {
    let architecture = match std::env::consts::ARCH {
        "powerpc64" => "ppc64le",
        other => other,
    };
    let top = fs::canonicalize(&plan.out)?.join("rpm");
    let spec = fs::read_to_string("packaging/rpm/longhaul.spec.in")?
        .replace("@VERSION@", &plan.version)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@TREE@", &fs::canonicalize(tree)?.to_string_lossy());
    write(&top.join("longhaul.spec"), &spec)?;
    output(
        Command::new("rpmbuild")
            .env("SOURCE_DATE_EPOCH", &plan.epoch)
            .arg("-bb")
            .args(["--define", "use_source_date_epoch_as_buildtime 1"])
            .args(["--define", "clamp_mtime_to_source_date_epoch 1"])
            .args(["--define", "_buildhost reproducible"])
            .args(["--define", &format!("_topdir {}", top.display())])
            .arg(top.join("longhaul.spec")),
    )?;
    let name = format!("longhaul-{}-1.{architecture}.rpm", plan.version);
    let package = plan.out.join(&name);
    fs::copy(top.join("RPMS").join(architecture).join(&name), &package)?;
    fs::remove_dir_all(&top)?;
    Ok(package)
}

fn tar(plan: &Plan, tree: &Path) -> Result<PathBuf> {
    let package = plan.out.join(format!(
        "longhaul-{}-{}.tar.gz",
        plan.version,
        std::env::consts::ARCH
    ));
    output(
        Command::new("tar")
            .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
            .arg(format!("--mtime=@{}", plan.epoch))
            .args(["--use-compress-program", "gzip -9n", "-cf"])
            .arg(&package)
            .arg("-C")
            .arg(tree)
            .arg("."),
    )?;
    Ok(package)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    output(Command::new("cp").arg("-a").args([from, to])).map(drop)
}

fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let cannot = || format!("cannot install `{}` as `{}`", from.display(), to.display());
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(cannot)?;
    }
    fs::copy(from, to).with_context(cannot)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).with_context(cannot)
}

fn write(to: &Path, text: &str) -> Result<()> {
    let cannot = || format!("cannot write `{}`", to.display());
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(cannot)?;
    }
    fs::write(to, text).with_context(cannot)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o644)).with_context(cannot)
}

/// Standard output of a program that succeeds, without the last newline.
fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run `{program}`: is it installed?"))?;
    ensure!(
        output.status.success(),
        "`{program}` failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}
