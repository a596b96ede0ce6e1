//! The floor of a restore: creating, writing and dating a tree's files, with no decoding at all.
//!
//! `floor SOURCE TARGET THREADS` reads SOURCE into memory, then times making the same folders and
//! files below TARGET (which must not exist) with so many threads: open, write, mode, times, close.

use rustix::fs::{Mode, OFlags, Timespec, Timestamps};
use std::error::Error;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

struct File {
    path: PathBuf,
    mode: u32,
    times: Timestamps,
    content: Vec<u8>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(source), Some(target), Some(threads)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: floor SOURCE TARGET THREADS".into());
    };
    let threads: usize = threads.to_str().and_then(|text| text.parse().ok()).ok_or("THREADS is a number")?;
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    read(Path::new(&source), Path::new(&target), &mut folders, &mut files)?;
    let started = Instant::now();
    for folder in &folders {
        std::fs::create_dir(folder)?;
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads).map(|_| scope.spawn(|| write_all(&files, &next))).collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().map_err(|_| "a thread panicked")?.map_err(|_| "writing failed"))
    })?;
    println!("{:.3} s for {} files with {threads} threads", started.elapsed().as_secs_f64(), files.len());
    Ok(())
}

fn read(source: &Path, target: &Path, folders: &mut Vec<PathBuf>, files: &mut Vec<File>) -> std::io::Result<()> {
    folders.push(target.to_path_buf());
    let mut entries: Vec<_> = std::fs::read_dir(source)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = target.join(entry.file_name());
        let stat = entry.metadata()?;
        if stat.is_dir() {
            read(&entry.path(), &path, folders, files)?;
        } else if stat.is_file() {
            let time = Timespec { tv_sec: stat.mtime(), tv_nsec: stat.mtime_nsec() };
            let times = Timestamps { last_access: time, last_modification: time };
            files.push(File { path, mode: stat.mode() & 0o7777, times, content: std::fs::read(entry.path())? });
        }
    }
    Ok(())
}

fn write_all(files: &[File], next: &AtomicUsize) -> rustix::io::Result<()> {
    /// Files taken at a time, so that threads mostly work in different folders.
    const TAKE: usize = 16;
    loop {
        let from = next.fetch_add(TAKE, Ordering::Relaxed);
        let Some(batch) = files.get(from..(from + TAKE).min(files.len())).filter(|batch| !batch.is_empty()) else {
            return Ok(());
        };
        for file in batch {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
            let fd = rustix::fs::open(&file.path, flags, Mode::from_raw_mode(0o600))?;
            let mut rest = file.content.as_slice();
            while !rest.is_empty() {
                let written = rustix::io::write(&fd, rest)?;
                rest = rest.get(written..).unwrap_or(&[]);
            }
            rustix::fs::fchmod(&fd, Mode::from_raw_mode(file.mode))?;
            rustix::fs::futimens(&fd, &file.times)?;
        }
    }
}
