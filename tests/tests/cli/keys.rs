//! Where passphrases come from, and that they go nowhere.

use packtrain_tests::cases;
use packtrain_tests::command::Call;
use packtrain_tests::folder::Temp;
use packtrain_tests::repository::Copy;

#[test]
fn passphrases_by_variable_command_and_descriptor() {
    let copy = Copy::of(cases::named("borg2/key-unicode"));
    let passphrase = cases::named("borg2/key-unicode").passphrase();
    let temp = Temp::new();
    let file = temp.path().join("secret");
    for end in ["", "\n", "\r\n"] {
        std::fs::write(&file, format!("{passphrase}{end}")).expect("a file");
        for prefix in ["PACKTRAIN", "BORG"] {
            let list = || Call::new(["list", "-r"]).args([copy.path()]);
            let good = |call: Call| assert!(call.run().expect(0).text().contains("archive"), "{prefix} {end:?}");
            good(list().env(&format!("{prefix}_PASSPHRASE"), &passphrase));
            good(list().env(&format!("{prefix}_PASSCOMMAND"), format!("cat '{}'", file.display())));
            good(
                list().env(&format!("{prefix}_PASSPHRASE_FD"), "0").stdin(std::fs::File::open(&file).expect("a file")),
            );
        }
    }
    // The order: PACKTRAIN_ before BORG_, a passphrase before a command.
    let list = || Call::new(["list", "-r"]).args([copy.path()]);
    list().env("PACKTRAIN_PASSPHRASE", &passphrase).env("BORG_PASSPHRASE", "wrong").run().expect(0);
    list().env("PACKTRAIN_PASSPHRASE", "wrong").env("BORG_PASSPHRASE", &passphrase).run().expect(52);
    list().env("BORG_PASSPHRASE", &passphrase).env("BORG_PASSCOMMAND", "false").run().expect(0);
}

/// The program that prints the passphrase sees no variable that holds or leads to one.
#[test]
fn the_passcommand_sees_no_secret() {
    let copy = Copy::of(cases::named("borg2/sample"));
    let temp = Temp::new();
    let seen = temp.path().join("seen");
    let script = temp.path().join("ask");
    std::fs::write(&script, format!("env > '{}'\necho test\n", seen.display())).expect("a file");
    let call = Call::new(["list", "-r"])
        .args([copy.path()])
        .env("BORG_PASSPHRASE_FD", "9")
        .env("PACKTRAIN_PASSPHRASE_FD", "9");
    let call = call
        .env("PACKTRAIN_PASSCOMMAND", format!("sh '{}'", script.display()))
        .env("BORG_PASSCOMMAND", "echo other")
        .env("SOMETHING_ELSE", "kept");
    call.run().expect(0);
    let seen = std::fs::read_to_string(seen).expect("the environment");
    assert!(seen.contains("SOMETHING_ELSE=kept"), "{seen}");
    assert!(!seen.contains("PASSPHRASE") && !seen.contains("PASSCOMMAND"), "{seen}");
}

/// Neither the right nor a wrong passphrase, nor any of the key, is ever printed.
#[test]
fn secrets_are_never_printed() {
    let case = cases::named("borg2/key-several");
    let copy = Copy::of(case);
    let (right, wrong) = ("the third one", "Xq7-not-the-third-one");
    for passphrase in [right, wrong] {
        for arguments in [
            &["list", "-v", "-v"][..],
            &["list", "--log-json", "latest"],
            &["info"],
            &["info", "--json"],
            &["check", "--verify-data", "-v"],
            &["extract", "-n", "--list", "--progress", "--stats", "latest", "not-there"],
            &["list", "no-such-archive"],
        ] {
            let temp = Temp::new();
            let call = Call::new(arguments)
                .env("BORG_REPO", copy.path())
                .env("PACKTRAIN_PASSPHRASE", passphrase)
                .within(temp.path());
            let run = call.run();
            assert!(
                !run.stderr.contains("panicked") && (passphrase == right || run.code == 52),
                "{arguments:?}: {}",
                run.stderr
            );
            let all = format!("{}{}", String::from_utf8_lossy(&run.stdout), run.stderr);
            assert!(!all.contains(passphrase), "{arguments:?} tells the passphrase: {all}");
            for key in copy.files_in("keys") {
                let text = String::from_utf8(copy.read(&key)).expect("UTF-8");
                assert!(text.lines().skip(1).all(|line| !all.contains(line)), "{arguments:?} tells the key");
            }
        }
    }
    // A passphrase on the command line is not possible at all.
    let help = Call::new(["extract", "--help"]).run().expect(0);
    assert!(!help.text().contains("--passphrase"), "{}", help.text());
}

/// Without a terminal nobody is asked: the run ends at once.
#[test]
fn nobody_is_asked_without_a_terminal() {
    let copy = Copy::of(cases::named("borg2/sample"));
    let (mut child, _home) = Call::new(["list", "-r"]).args([copy.path()]).stdin(std::process::Stdio::piped()).start();
    // Its stdin stays open: something that asks would wait for ever.
    let stdin = child.stdin.take();
    let run = packtrain_tests::command::finished(child.wait_with_output().expect("it ends"));
    drop(stdin);
    assert_eq!(run.code, 50, "{}", run.stderr);
}
