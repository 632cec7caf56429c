//! One module per verb: what it reads, whom it asks, what it prints.

pub(crate) mod cc;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod flow;
pub(crate) mod lab;
pub(crate) mod object;
pub(crate) mod paper;
pub(crate) mod profile;
pub(crate) mod relay;
pub(crate) mod schema;
pub(crate) mod simulate;
pub(crate) mod top;
pub(crate) mod trunk;
pub(crate) mod tune;
pub(crate) mod version;
