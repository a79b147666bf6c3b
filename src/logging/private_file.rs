//! Writes files that may contain records: only the user can read them, and no symbolic link redirects them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Writes a file with mode 0600. Replaces an existing file or symbolic link, and never writes through it.
///
/// # Errors
///
/// The directory does not exist or is not writable, or the path leads to a directory, a device or a pipe.
pub fn write(path: &Path, data: &[u8]) -> io::Result<()> {
    if path.exists() && !path.is_file() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "not a regular file"));
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}-{}.new", process::id(), NUMBER.fetch_add(1, Relaxed)));
    let new = path.with_file_name(name);
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.write(true).create_new(true).open(&new)?;
    let written = file.write_all(data).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}
