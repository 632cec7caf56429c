//! `longhaul schema`: the published shape of every JSON document.

use std::process::ExitCode;

use crate::arguments::{Schema, SchemaDocument};
use crate::failure::Failure;
use crate::output;

pub(crate) fn run(arguments: &Schema) -> Result<ExitCode, Failure> {
    let schema = match arguments.document {
        SchemaDocument::Explain => schemars::schema_for!(record::explain::Document),
        SchemaDocument::Change => schemars::schema_for!(record::change::Document),
        SchemaDocument::Flow => schemars::schema_for!(record::flow::Document),
        SchemaDocument::Page => schemars::schema_for!(record::page::Answer),
        SchemaDocument::Play => schemars::schema_for!(record::play::Document),
        SchemaDocument::WhatIf => schemars::schema_for!(record::what_if::Document),
        SchemaDocument::Lab => schemars::schema_for!(record::lab::Document),
        SchemaDocument::Top => schemars::schema_for!(record::top::Line),
        SchemaDocument::Tune => schemars::schema_for!(record::tune::Document),
    };
    output::json(&schema)?;
    Ok(ExitCode::SUCCESS)
}
