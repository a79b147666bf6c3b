//! The file that lets a cluster survive a restart of its process. The [`journal`](super::journal) module defines what
//! the file contains.

use bytes::Bytes;
use std::fs::{File, OpenOptions, TryLockError, create_dir_all};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

const NAME: &str = "klamm-dev-broker.journal";
/// The first bytes of the file, which identify it.
const MAGIC: &[u8] = b"klamm dev broker, 1\n";

#[derive(Debug)]
pub(super) struct Disk {
    file: File,
    fsync: bool,
}

impl Disk {
    /// Opens the file in a directory and returns its content. Creates the file and the directory if necessary.
    pub fn open(dir: &Path, fsync: bool) -> io::Result<(Self, Bytes)> {
        create_dir_all(dir)?;
        let path = dir.join(NAME);
        // The file holds records and credentials.
        if path.is_symlink() {
            return Err(invalid(&path, "is a symbolic link"));
        }
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.read(true).write(true).create(true).truncate(false).open(&path)?;
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?; // an earlier version created it
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(invalid(&path, "is in use by another dev broker")),
            Err(TryLockError::Error(e)) => return Err(e),
        }
        let mut data = Vec::new();
        file.read_to_end(&mut data)?;
        // A crash may have happened before the first bytes were complete.
        if MAGIC.starts_with(&data) {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(MAGIC)?;
            data = MAGIC.to_vec();
            if fsync {
                file.sync_all()?;
                File::open(dir)?.sync_all()?; // the file's name is there, too
            }
        }
        if !data.starts_with(MAGIC) {
            return Err(invalid(&path, "was not written by a dev broker of this version"));
        }
        Ok((Self { file, fsync }, Bytes::from(data).slice(MAGIC.len()..)))
    }

    /// Truncates the file after `whole` bytes. A crash has left an incomplete frame after these bytes.
    pub fn cut(&mut self, whole: usize) -> io::Result<()> {
        let end = (MAGIC.len() + whole) as u64;
        self.file.set_len(end)?;
        self.file.seek(SeekFrom::Start(end)).map(drop)
    }

    /// Appends a frame. When the function returns, the frame is in the file.
    pub fn append(&mut self, frame: &[u8]) -> io::Result<()> {
        self.file.write_all(frame)?;
        if self.fsync { self.file.sync_data() } else { Ok(()) }
    }
}

fn invalid(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{} {why}", path.display()))
}
