//! `longhaul object`: encrypted objects without the gateway that wrote them.

pub(crate) mod arguments;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use envelope::{Envelope, Footer, KeyRing, Kind, Layout, Manifest, Name, WrappingKey};
use gateway::config::KeyOptions;

use crate::failure::{Blame as _, Failure, Kind as Fault};
use crate::output;
use arguments::{Object, ObjectCommand, ObjectDecrypt, ObjectRewrap, Sealed};

/// Longest list of parts: 9999 of 26 bytes, and what stands around them.
const LONGEST_MANIFEST: u64 = 1 << 20;
const NOT_THIS: &str =
    "bucket, key or wrapping key are not those that the object was written under";

pub(crate) fn run(arguments: &Object) -> Result<ExitCode, Failure> {
    match &arguments.command {
        ObjectCommand::Decrypt(decrypt) => decrypted(decrypt),
        ObjectCommand::Rewrap(rewrap) => rewrapped(rewrap),
    }
}

fn decrypted(arguments: &ObjectDecrypt) -> Result<ExitCode, Failure> {
    let (key, envelope) = opener(&arguments.sealed)?;
    let mut stored = File::open(&arguments.stored)
        .usage(format!("cannot read `{}`", arguments.stored.display()))?;
    let layout = layout(&mut stored, &envelope, key, arguments)
        .map_err(|error| Failure::new(Fault::Assertion, error))?;
    let result = match &arguments.output {
        Some(path) => into_file(&mut stored, &layout, path),
        None => write(&mut stored, &layout, &mut io::stdout().lock()),
    };
    result.map_err(|error| {
        Failure::new(Fault::Assertion, error)
            .hint("what was written before the first wrong chunk is authentic, and not complete")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn rewrapped(arguments: &ObjectRewrap) -> Result<ExitCode, Failure> {
    let (key, envelope) = opener(&arguments.sealed)?;
    let new = wrapping_key(&KeyOptions {
        name: "new".into(),
        file: arguments.new_key_file.clone(),
        env: arguments.new_key_env.clone(),
        command: arguments.new_key_command.clone(),
    })?;
    let mut salt = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut salt))
        .environment("this host has no random bytes")?;
    let envelope = envelope
        .rewrap(&KeyRing::new(key, []), &new, name(&arguments.sealed), salt)
        .context(NOT_THIS)
        .map_err(|error| Failure::new(Fault::Assertion, error))?;
    output::data(&format!("{}\n", envelope.text()))?;
    Ok(ExitCode::SUCCESS)
}

/// What opens an object: its wrapping key and its envelope.
fn opener(sealed: &Sealed) -> Result<(WrappingKey, Envelope), Failure> {
    let key = wrapping_key(&KeyOptions {
        name: "of the command line".into(),
        file: sealed.key_file.clone(),
        env: sealed.key_env.clone(),
        command: sealed.key_command.clone(),
    })?;
    let text = envelope_text(sealed)?;
    let envelope = Envelope::parse(&text).usage("`--envelope` is none")?;
    Ok((key, envelope))
}

fn wrapping_key(options: &KeyOptions) -> Result<WrappingKey, Failure> {
    gateway::wrapping_key(options, |name| std::env::var(name).ok())
        .map_err(|problem| anyhow!(problem))
        .usage("there is no key to unwrap or wrap with")
}

fn name(sealed: &Sealed) -> Name<'_> {
    Name {
        bucket: &sealed.bucket,
        key: &sealed.key,
    }
}

/// The envelope itself, or the one inside what a client library printed about the object.
fn envelope_text(arguments: &Sealed) -> Result<String, Failure> {
    if let Some(text) = &arguments.envelope {
        return Ok(text.clone());
    }
    let Some(path) = &arguments.head else {
        return Err(Failure::new(
            Fault::Usage,
            anyhow!("set --envelope or --head to what the object's metadata says"),
        ));
    };
    let text = crate::commands::relay::text(path)?;
    let head: serde_json::Value =
        serde_json::from_str(&text).usage(format!("`{}` is no JSON", path.display()))?;
    let envelope = head
        .pointer("/Metadata/longhaul")
        .and_then(serde_json::Value::as_str);
    envelope
        .map(str::to_owned)
        .ok_or_else(|| anyhow!("it has no Metadata.longhaul"))
        .usage(format!(
            "`{}` is no head of an encrypted object",
            path.display()
        ))
}

fn layout(
    stored: &mut File,
    envelope: &Envelope,
    key: WrappingKey,
    arguments: &ObjectDecrypt,
) -> anyhow::Result<Layout> {
    let opened = envelope
        .open(&KeyRing::new(key, []), name(&arguments.sealed))
        .context(NOT_THIS)?;
    let length = stored.metadata()?.len();
    if opened.kind == Kind::Whole {
        return Ok(Layout::whole(opened.key, length, opened.length)?);
    }
    let footer = Footer::read(&tail(stored, length, envelope::FOOTER)?)?;
    anyhow::ensure!(
        footer.manifest <= LONGEST_MANIFEST,
        "the list of parts is longer than any"
    );
    let manifest = tail(stored, length, footer.manifest)?;
    let manifest = Manifest::open(&opened.key, &manifest)?;
    Ok(Layout::parts(
        opened.key,
        manifest,
        length,
        footer.manifest,
    )?)
}

/// The last `count` bytes.
fn tail(stored: &mut File, length: u64, count: u64) -> anyhow::Result<Vec<u8>> {
    let first = length.checked_sub(count).context("the object is cut")?;
    stored.seek(SeekFrom::Start(first))?;
    let mut bytes = Vec::new();
    stored.take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Beside its place first, so that no half file stands there.
fn into_file(stored: &mut File, layout: &Layout, path: &Path) -> anyhow::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let beside = Path::new(&name);
    let mut file =
        File::create(beside).with_context(|| format!("cannot write `{}`", beside.display()))?;
    let written = write(stored, layout, &mut file);
    if written.is_err() {
        // The reason is told; the half file is nobody's.
        let _ = std::fs::remove_file(beside);
        return written;
    }
    std::fs::rename(beside, path).with_context(|| format!("cannot write `{}`", path.display()))
}

fn write(stored: &mut File, layout: &Layout, out: &mut impl Write) -> anyhow::Result<()> {
    let last = layout.plain().saturating_sub(1);
    let mut plan = layout.plan(0, last).context("nothing to read")?;
    stored.seek(SeekFrom::Start(plan.first))?;
    let mut left = plan.last - plan.first + 1;
    let mut plain = Vec::new();
    while left > 0 {
        let mut piece = Vec::new();
        let now = stored.take(left.min(1 << 20)).read_to_end(&mut piece)?;
        anyhow::ensure!(now > 0, "the file is shorter than it was");
        left -= now as u64;
        plan.opening.push(piece, &mut plain)?;
        for bytes in plain.drain(..) {
            out.write_all(&bytes)?;
        }
    }
    plan.opening.finish()?;
    out.flush()?;
    Ok(())
}
