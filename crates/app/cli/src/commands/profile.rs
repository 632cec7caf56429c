//! `longhaul profile`: profiles, every setting of one, where two differ, and other systems' languages.

pub(crate) mod arguments;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use profile::foreign::{self, Fate, Imported, Language};
use profile::{ProfileSet, RawTcpProfile, TcpProfile};
use relay::ConfigOptions;
use serde_json::{Value, json};

use crate::commands::relay::{misconfigured, text};
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;
use arguments::{Profile, ProfileCommand};

pub(crate) fn run(arguments: &Profile) -> Result<ExitCode, Failure> {
    match &arguments.command {
        ProfileCommand::List { config, json } => list(&Shelf::with(config.as_deref())?, *json)?,
        ProfileCommand::Show { name, config, json } => {
            show(&Shelf::with(config.as_deref())?.find(name)?, *json)?;
        }
        ProfileCommand::Diff {
            one,
            other,
            config,
            json,
        } => {
            let shelf = Shelf::with(config.as_deref())?;
            return diff(&shelf.find(one)?, &shelf.find(other)?, *json);
        }
        ProfileCommand::Import { file, json } => import(file, *json)?,
        ProfileCommand::Export { name, to, config } => {
            export(&Shelf::with(config.as_deref())?.find(name)?, *to)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The profiles at hand: built in, and of a relay's configuration.
struct Shelf {
    set: ProfileSet,
    written: Vec<String>,
}

impl Shelf {
    fn with(config: Option<&Path>) -> Result<Self, Failure> {
        let mut profiles: BTreeMap<String, RawTcpProfile> = BTreeMap::new();
        if let Some(path) = config {
            let options = ConfigOptions::from_toml(&text(path)?);
            profiles = options
                .map_err(|error| misconfigured(error, path))?
                .profiles;
        }
        Ok(Self {
            written: profiles.keys().cloned().collect(),
            set: ProfileSet::new(profiles),
        })
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let built_in = profile::builtin::NAMES.iter().copied();
        built_in.chain(self.written.iter().map(String::as_str))
    }

    fn find(&self, name: &str) -> Result<TcpProfile, Failure> {
        self.set.resolve(name).map_err(|errors| {
            let problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let failure = Failure::new(Kind::Usage, anyhow::anyhow!(problems.join("\n  ")));
            failure.hint(
                "`longhaul profile list` names them; --config FILE adds those of a configuration",
            )
        })
    }
}

/// The path that each built-in profile suits.
fn suits(name: &str) -> &'static str {
    match name {
        "lan" => "hosts of one site: round trips up to about 2 ms",
        "wan" => "a long path: 20 to 600 ms, 10 Mbit/s to 1 Gbit/s, some loss",
        "s3" => "a long, clean path to an object store over hot connections",
        "mobile" => "cellular and crowded wireless networks: 30 to 150 ms that vary, deep buffers",
        "satellite" => "a geostationary satellite: 500 to 700 ms, 2 to 100 Mbit/s",
        "legacy" => "old equipment, and comparison with what TCP did before 2004",
        _ => "a profile of your own",
    }
}

fn list(shelf: &Shelf, as_json: bool) -> Result<(), Failure> {
    let mut profiles = Vec::new();
    for name in shelf.names() {
        profiles.push(shelf.find(name)?);
    }
    if as_json {
        return output::json(&profiles.iter().map(describe).collect::<Vec<_>>());
    }
    let mut text = String::new();
    for profile in &profiles {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{:<9} {}", profile.name, suits(&profile.name));
    }
    text.push_str("\n`longhaul profile show NAME` lists the settings.\n");
    output::data(&text)
}

fn show(profile: &TcpProfile, as_json: bool) -> Result<(), Failure> {
    let settings = describe(profile);
    if as_json {
        return output::json(&settings);
    }
    let mut text = String::new();
    for (field, value) in settings.as_object().into_iter().flatten() {
        let _ = writeln!(text, "{field:<30} {}", said(value));
    }
    output::data(&text)
}

fn said(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_null() => "as the kernel has it".to_owned(),
        None => value.to_string(),
    }
}

fn diff(one: &TcpProfile, other: &TcpProfile, as_json: bool) -> Result<ExitCode, Failure> {
    let (left, right) = (describe(one), describe(other));
    let mut differences = serde_json::Map::new();
    for (field, value) in left.as_object().into_iter().flatten() {
        let named = ["name", "suits"].contains(&field.as_str());
        if !named && right[field] != *value {
            differences.insert(field.clone(), json!([value, right[field]]));
        }
    }
    let same = differences.is_empty();
    if as_json {
        output::json(&differences)?;
    } else if same {
        output::data(&format!(
            "`{}` and `{}` are the same\n",
            one.name, other.name
        ))?;
    } else {
        let mut text = format!("{:<30} {:<32} {}\n", "", one.name, other.name);
        for (field, pair) in &differences {
            let _ = writeln!(
                text,
                "{field:<30} {:<32} {}",
                said(&pair[0]),
                said(&pair[1])
            );
        }
        output::data(&text)?;
    }
    Ok(ExitCode::from(u8::from(!same)))
}

fn import(file: &Path, as_json: bool) -> Result<(), Failure> {
    let all = foreign::import(&text(file)?);
    let all = all.usage(format!("`{}` is no list of TCP profiles", file.display()))?;
    if as_json {
        return output::json(&all.iter().map(imported).collect::<Vec<_>>());
    }
    let profiles: BTreeMap<_, _> = all
        .iter()
        .map(|imported| (imported.name.clone(), imported.profile.clone()))
        .collect();
    let options = ConfigOptions {
        profiles,
        ..ConfigOptions::default()
    };
    output::data(&options.to_toml().bug("cannot write the profiles")?)?;
    for imported in &all {
        output::say(&format!("{}:", imported.name));
        for field in &imported.fields {
            let (name, value) = (&field.name, &field.value);
            output::say(&format!("  {name} {value}: {}", fate(&field.fate)));
        }
    }
    Ok(())
}

fn imported(imported: &Imported) -> Value {
    let fields = imported.fields.iter().map(|field| {
        json!({
            "field": field.name,
            "value": field.value,
            "expressed": matches!(field.fate, Fate::Key(_) | Fate::Near(..)),
            "fate": fate(&field.fate),
        })
    });
    json!({
        "name": imported.name,
        "profile": imported.profile,
        "fields": fields.collect::<Vec<_>>(),
    })
}

fn fate(fate: &Fate) -> String {
    match fate {
        Fate::Key(key) => format!("is {key}"),
        Fate::Near(key, difference) => format!("is {key}: {difference}"),
        Fate::Elsewhere(what) => format!("not a socket's: {what}"),
        Fate::Always(what) => format!("is always so: {what}"),
        Fate::Never(why) => format!("CANNOT BE SAID: {why}"),
    }
}

fn export(profile: &TcpProfile, language: Language) -> Result<(), Failure> {
    output::data(&foreign::export(profile, language).to_string())
}

/// Every setting by the name that configuration files use.
fn describe(profile: &TcpProfile) -> Value {
    let keep_alive = profile.keep_alive.map(|keep_alive| {
        let (idle, interval) = (keep_alive.idle, keep_alive.interval);
        format!(
            "after {}, {} probes {} apart",
            units::format_span(idle),
            keep_alive.probes,
            units::format_span(interval)
        )
    });
    json!({
        "name": profile.name,
        "suits": suits(&profile.name),
        "congestion-control": profile.congestion_control.join(", "),
        "congestion-control-forgetting": profile
            .congestion_control_forgetting
            .as_ref()
            .map(|order| order.join(", ")),
        "nagle": profile.nagle,
        "max-pacing-rate": profile.max_pacing_rate.map(|rate| rate.to_string()),
        "notsent-low-water": profile.notsent_low_water.map(|bytes| bytes.to_string()),
        "keep-alive": keep_alive,
        "user-timeout": profile.user_timeout.map(units::format_span),
        "send-buffer": profile.send_buffer.map(|bytes| bytes.to_string()),
        "receive-buffer": profile.receive_buffer.map(|bytes| bytes.to_string()),
        "max-segment": profile.max_segment.map(|bytes| bytes.to_string()),
        "syn-retries": profile.syn_retries,
        "fast-open": profile.fast_open,
        "ecn": profile.ecn,
        "dscp": profile.dscp,
        "delayed-ack": profile.delayed_ack.map(units::format_span),
        "min-rto": profile.min_rto.map(units::format_span),
        "max-rto": profile.max_rto.map(units::format_span),
    })
}
