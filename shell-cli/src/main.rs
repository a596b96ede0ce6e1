//! The `packtrain` command.

use clap::Parser;
use packtrain::args::Cli;
use packtrain::{commands, exit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let usage = error.use_stderr();
            // Nobody is left to be told if even this cannot be written.
            let _ = error.print();
            return ExitCode::from(if usage { exit::USAGE } else { exit::OK });
        }
    };
    let cancelled = Arc::new(AtomicBool::new(false));
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGINT, SIGTERM, SIGHUP] {
        // The first signal asks for an orderly end, a second one ends at once. Registering can
        // only fail for signals that cannot be caught.
        let _ = signal_hook::flag::register_conditional_shutdown(number, 128 + number, cancelled.clone());
        let _ = signal_hook::flag::register(number, cancelled.clone());
        let _ = signal_hook::flag::register_usize(number, signal.clone(), number as usize);
    }
    // A file beyond the size limit is an error of that file, not the end of the process.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let code = commands::run(cli, &cancelled);
    match signal.load(Ordering::Relaxed) {
        0 => ExitCode::from(code),
        number => ExitCode::from(u8::try_from(128 + number).unwrap_or(exit::CANCELLED)),
    }
}
