//! Changes sysctls and takes changes back.

use std::fmt::Write as _;
use std::fs;

use record::tune::Change;

use crate::journal::{DropIn, Journal, Restored, remove, replace};
use crate::{Place, TuneError};

/// What was done.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Applied {
    /// Sysctls that were set and read back.
    pub sysctls: Vec<String>,
    /// Whether the file below `/etc/sysctl.d` was written.
    pub lasting: bool,
}

/// Makes `changes`, all or none; with `lasting`, also in a file that the host reads when it starts.
///
/// # Errors
/// Where a sysctl is refused or does not become what was asked, everything is put back as it was before this
/// call; only what an earlier call changed stays in the journal.
pub fn apply(place: &Place, changes: &[Change], lasting: bool) -> Result<Applied, TuneError> {
    let earlier = of_this_host(place)?;
    let mut journal = match &earlier {
        Some(journal) => journal.clone(),
        None => Journal::new()?,
    };
    let mut before = Vec::new();
    for change in changes {
        let value = get(place, &change.key)?;
        journal.note(&change.key, &value, &change.to);
        before.push(value);
    }
    if lasting && journal.drop_in.is_none() {
        journal.drop_in = Some(DropIn {
            before: fs::read_to_string(&place.drop_in).ok(),
        });
    }
    // On disk before the first change: whoever stops us from here on, `revert` knows everything.
    journal.save(place)?;
    let done = set_all(place, changes).and_then(|()| {
        if lasting {
            replace(&place.drop_in, &drop_in(&journal))
        } else {
            Ok(())
        }
    });
    if let Err(error) = done {
        for (change, value) in changes.iter().zip(&before) {
            put(place, &change.key, value)?;
        }
        match &earlier {
            Some(journal) => journal.save(place)?,
            None => Journal::remove(place)?,
        }
        return Err(error);
    }
    Ok(Applied {
        sysctls: changes.iter().map(|change| change.key.clone()).collect(),
        lasting,
    })
}

/// Restores every value of the journal and removes it.
///
/// # Errors
/// The journal stays where anything could not be restored.
pub fn revert(place: &Place) -> Result<Restored, TuneError> {
    let Some(journal) = Journal::load(place)? else {
        return Err(TuneError::NoJournal {
            path: place.journal.clone(),
        });
    };
    let here = Journal::new()?;
    let rebooted = journal.boot != here.boot;
    let mut restored = Restored {
        rebooted,
        ..Restored::default()
    };
    if !rebooted {
        same_namespace(place, &journal, &here)?;
        for entry in journal.entries.iter().rev() {
            put(place, &entry.key, &entry.before)?;
            restored.sysctls.push(entry.key.clone());
        }
    }
    if let Some(drop_in) = &journal.drop_in {
        match &drop_in.before {
            Some(text) => replace(&place.drop_in, text)?,
            None => remove(&place.drop_in)?,
        }
        restored.drop_in = true;
    }
    Journal::remove(place)?;
    Ok(restored)
}

/// The journal of an earlier call, if its values still mean something here.
fn of_this_host(place: &Place) -> Result<Option<Journal>, TuneError> {
    let Some(journal) = Journal::load(place)? else {
        return Ok(None);
    };
    let here = Journal::new()?;
    if journal.boot != here.boot {
        // Its sysctls were lost with the boot; what it knows of the lasting file still counts.
        return Ok(journal.drop_in.map(|drop_in| Journal {
            drop_in: Some(drop_in),
            ..here
        }));
    }
    same_namespace(place, &journal, &here)?;
    Ok(Some(journal))
}

fn same_namespace(place: &Place, journal: &Journal, here: &Journal) -> Result<(), TuneError> {
    if journal.namespace == here.namespace {
        return Ok(());
    }
    Err(TuneError::OtherNamespace {
        path: place.journal.clone(),
        theirs: journal.namespace.clone(),
        ours: here.namespace.clone(),
    })
}

fn set_all(place: &Place, changes: &[Change]) -> Result<(), TuneError> {
    for Change { key, to, .. } in changes {
        fs::write(place.sysctl(key), to).map_err(|source| TuneError::Write {
            key: key.clone(),
            value: to.clone(),
            source,
        })?;
        let became = get(place, key)?;
        if !same(&became, to) {
            return Err(TuneError::ReadBack {
                key: key.clone(),
                asked: to.clone(),
                became,
            });
        }
    }
    Ok(())
}

/// Puts a former value back, and makes sure of it.
fn put(place: &Place, key: &str, value: &str) -> Result<(), TuneError> {
    let restore = |source| TuneError::Restore {
        key: key.to_owned(),
        value: value.to_owned(),
        source,
    };
    fs::write(place.sysctl(key), value).map_err(restore)?;
    let became = get(place, key)?;
    if same(&became, value) {
        Ok(())
    } else {
        Err(restore(std::io::Error::other(format!(
            "it is `{became}` now"
        ))))
    }
}

/// What the kernel prints, without the final newline.
pub(crate) fn get(place: &Place, key: &str) -> Result<String, TuneError> {
    let mut text = fs::read_to_string(place.sysctl(key)).map_err(|source| TuneError::Read {
        key: key.to_owned(),
        source,
    })?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// The kernel separates numbers by tabs, people by blanks.
fn same(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

/// Everything that the journal changed, for `sysctl --system`.
fn drop_in(journal: &Journal) -> String {
    let mut text =
        "# Written by `longhaul tune --apply --persist`; `longhaul tune --revert` removes it.\n"
            .to_owned();
    for entry in &journal.entries {
        let value = entry.after.split_whitespace().collect::<Vec<_>>().join(" ");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} = {value}", entry.key);
    }
    text
}
