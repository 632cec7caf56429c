//! `longhaul lab view`: results as a web page.

use std::process::ExitCode;
use std::sync::Arc;

use dash::ReportFolder;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::arguments::LabView;
use crate::commands::version;
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;

pub(super) fn run(arguments: &LabView) -> Result<ExitCode, Failure> {
    let (dir, listen) = (&arguments.dir, arguments.listen);
    if !dir.is_dir() {
        let error = anyhow::anyhow!("there is no folder `{}`", dir.display());
        let hint = "`longhaul lab run SCENARIO --out DIR` makes one";
        return Err(Failure::new(Kind::Usage, error).hint(hint));
    }
    let root = dir
        .canonicalize()
        .usage(format!("cannot resolve `{}`", dir.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .environment("cannot start the runtime")?;
    let longhaul = format!("longhaul {}", version::identity());
    runtime.block_on(async {
        let socket = TcpListener::bind(listen).await;
        let socket = socket.environment(format!("cannot listen on {listen}"))?;
        let address = socket.local_addr().unwrap_or(listen);
        let mut interrupt =
            signal(SignalKind::interrupt()).environment("cannot listen for signals")?;
        let mut terminate =
            signal(SignalKind::terminate()).environment("cannot listen for signals")?;
        output::say(&format!(
            "results below `{}` at http://{address}\nCtrl-C ends it",
            dir.display()
        ));
        tokio::select! {
            () = dash::serve(socket, Arc::new(ReportFolder::new(root, longhaul))) => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}
