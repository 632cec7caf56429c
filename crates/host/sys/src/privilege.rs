//! Going on as a user who may less, once everything that needs root is open (`setpriv(1)` for a process itself).

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// A process cannot go on as another user.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// Nobody has this name.
    #[error("there is no user `{name}` on this host")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The list of users cannot be asked.
    #[error("cannot look up the user `{name}`")]
    LookUp {
        /// The name.
        name: String,
        /// What the library said.
        #[source]
        source: io::Error,
    },
    /// The kernel refuses; only root may.
    #[error("cannot go on as `{name}`, which takes root at the start")]
    Refused {
        /// The name.
        name: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The process could still become root again.
    #[error("root could be had back after going on as `{name}`")]
    Reversible {
        /// The name.
        name: String,
    },
}

/// A user of this host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct User {
    name: String,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

// === impl User ===

impl User {
    /// Looks a user up by name, in whatever list this host keeps (`getpwnam_r(3)`).
    pub fn find(name: &str) -> Result<Self, PrivilegeError> {
        let unknown = || PrivilegeError::Unknown {
            name: name.to_owned(),
        };
        let written = CString::new(name).map_err(|_| unknown())?;
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = ptr::null_mut();
        // Longer than any entry of the files; lists elsewhere say so with ERANGE.
        let mut strings = vec![0; 64 * 1024];
        // SAFETY: all pointers are of live values, the length is the buffer's, and `written` ends in zero.
        let failed = unsafe {
            libc::getpwnam_r(
                written.as_ptr(),
                entry.as_mut_ptr(),
                strings.as_mut_ptr(),
                strings.len(),
                &raw mut found,
            )
        };
        if failed != 0 {
            return Err(PrivilegeError::LookUp {
                name: name.to_owned(),
                source: io::Error::from_raw_os_error(failed),
            });
        }
        if found.is_null() {
            return Err(unknown());
        }
        // SAFETY: `found` is not null, so the entry was filled in; both fields are plain numbers.
        let (uid, gid) = unsafe {
            let entry = entry.assume_init_ref();
            (entry.pw_uid, entry.pw_gid)
        };
        Ok(Self {
            name: name.to_owned(),
            uid,
            gid,
        })
    }

    /// Goes on as this user with its own group alone, in all threads and for good: real, effective and saved.
    ///
    /// The C library's functions and not the system calls, since those change one thread only (`setuid(2)`,
    /// NOTES). Capabilities go with root's identity (`capabilities(7)`).
    pub fn assume(&self) -> Result<(), PrivilegeError> {
        // SAFETY: both take nothing and cannot fail.
        if self.uid != 0 && unsafe { (libc::getuid(), libc::geteuid()) } == (self.uid, self.uid) {
            // A successor of a process that has done this already.
            return Ok(());
        }
        let refused = |source| PrivilegeError::Refused {
            name: self.name.clone(),
            source,
        };
        // SAFETY: one valid group; the others take numbers.
        let steps = unsafe {
            [
                libc::setgroups(1, &raw const self.gid),
                libc::setresgid(self.gid, self.gid, self.gid),
                libc::setresuid(self.uid, self.uid, self.uid),
            ]
        };
        if steps.contains(&-1) {
            return Err(refused(io::Error::last_os_error()));
        }
        // SAFETY: takes a number. It must fail, or nothing was given up.
        if self.uid != 0 && unsafe { libc::setuid(0) } == 0 {
            return Err(PrivilegeError::Reversible {
                name: self.name.clone(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_strangers_named() {
        let root = User::find("root").unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        let error = User::find("nobody-has-this-name").unwrap_err();
        assert!(matches!(error, PrivilegeError::Unknown { .. }), "{error}");
        assert!(User::find("a\0b").is_err());
    }
}
