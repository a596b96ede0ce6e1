//! What `check` proves of an image, and what it says that it cannot.

use packtrain_tests::command::Call;
use packtrain_tests::folder::Temp;
use packtrain_tests::image_writer::ImageWriter;
use packtrain_tests::images;
use packtrain_tests::spread::spread;

#[test]
fn whole_images_pass() {
    spread(
        images::all(),
        |image| image.name.clone(),
        |image| {
            Call::new(["check"]).args(image.words()).run().expect(0);
            let run = Call::new(["check", "--verify-data"]).args(image.words()).run().expect(0);
            let says =
                if image.name == "digest" { "of them as their digest says; nothing says" } else { "0 of them as" };
            assert!(run.stderr.contains(says), "{}", run.stderr);
        },
    );
}

/// One bit of a stored file: nothing in the image tells, its digest or a manifest does.
#[test]
fn digests_and_manifests_prove_content() {
    let temp = Temp::new();
    let flipped = |name: &str| {
        let mut bytes = std::fs::read(&images::named(name).place.path).expect("the image");
        let at = bytes.windows(21).position(|part| part == b"sorts before . and ..").expect("an inline file");
        bytes[at] ^= 0x20;
        // The file may lie in what the superblock's checksum covers.
        let image = ImageWriter { bytes }.finish();
        std::fs::write(temp.path().join("flipped"), image).expect("a file");
    };
    flipped("digest");
    let run = Call::new(["check", "--verify-data", "flipped"]).within(temp.path()).run().expect(113);
    assert!(run.stderr.contains("-before-the-dots: the content does not have the digest"), "{}", run.stderr);

    let words = images::named("lz4-4k").words();
    Call::new(["check", "--write-manifest", "list"]).args(&words).within(temp.path()).run().expect(0);
    Call::new(["check", "--write-manifest", "list"]).args(&words).within(temp.path()).run().expect(2);
    let other = images::named("lzma-64k").words();
    let run = Call::new(["check", "--manifest", "list"]).args(other).within(temp.path()).run().expect(0);
    assert!(!run.stderr.contains("nothing says"), "{}", run.stderr);
    flipped("plain");
    Call::new(["check", "--verify-data", "flipped"]).within(temp.path()).run().expect(0);
    let run = Call::new(["check", "--manifest", "list", "flipped"]).within(temp.path()).run().expect(113);
    assert!(run.stderr.contains("-before-the-dots: the content differs from the manifest"), "{}", run.stderr);
    assert_eq!(run.stderr.matches("differs").count(), 1);

    // sha256sum itself takes the list for the restored tree.
    let out = temp.folder("out");
    Call::new(["extract", "-C", "out"]).args(words).within(temp.path()).run();
    let sums = std::process::Command::new("sha256sum").args(["--quiet", "-c", "../list"]).current_dir(out).output();
    let sums = sums.expect("sha256sum runs");
    assert!(sums.status.success(), "{}", String::from_utf8_lossy(&sums.stdout));
    std::fs::write(temp.path().join("short"), format!("{}  gone\n", "0".repeat(64))).expect("a file");
    let run = Call::new(["check", "--manifest", "short"]).args(images::named("plain").words()).within(temp.path());
    let run = run.run().expect(113);
    assert!(run.stderr.contains("gone: in the manifest, but not in the source"), "{}", run.stderr);
    assert!(run.stderr.contains("text: not in the manifest"), "{}", run.stderr);
}
